"""Is the agent reliable: pass@k, pass^k, and what is missing."""
