"""Why does it fail? The behaviour field of a stored run."""
