"""What differs between two runs of the same tasks."""
