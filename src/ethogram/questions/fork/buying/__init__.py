"""Run forks: continue a trace from a step, K times."""
