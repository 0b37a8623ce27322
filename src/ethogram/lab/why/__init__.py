"""Why does it fail? What rules find in traces, counted in failures against successes of the same tasks."""
