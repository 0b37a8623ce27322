"""Stored runs as columns and labels: the only way from the store to an analysis."""
