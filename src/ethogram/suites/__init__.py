"""What a suite holds: tasks, tools, checks and simulated users, from a folder, YAML, JSON lines or Python."""

from .load import LoadedSuite, load_suite

__all__ = ["LoadedSuite", "load_suite"]
