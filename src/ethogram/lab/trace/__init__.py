"""What happened in one trace: its tree, its outline, the words of its steps, and where a text stands."""
