"""Causes of failure: findings of rules in traces, counted in failures against successes of the same tasks."""
