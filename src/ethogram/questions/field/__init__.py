"""The behaviour field of a stored run."""
