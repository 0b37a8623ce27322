"""What does it cost? Money of a stored run, by step and tool, per resolved task, and with other models."""
