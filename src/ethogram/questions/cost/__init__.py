"""Cost of a stored run: by step and tool, per resolved task, and with other models."""
