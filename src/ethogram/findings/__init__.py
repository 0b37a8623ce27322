"""What rules find in one trace: verdicts, events, loops, classes of failure. No store."""
