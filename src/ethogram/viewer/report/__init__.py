"""The report: everything about a run in one file."""
