"""Outcomes of a stored run as columns, pass@k and pass^k, scoring without running."""
