"""Execute a plan within budgets, stop when told, resume where it stood. No statistics, no decisions."""
