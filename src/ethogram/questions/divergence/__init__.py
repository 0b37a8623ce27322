"""Distances between attempts: two traces, all repeats of a task, two runs; the noise floor."""
