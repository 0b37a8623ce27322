"""Where episodes run: this process, or a Ray cluster. One port, the same numbers."""
