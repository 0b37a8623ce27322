"""Verdicts of judges on a run: shares of attempts per item of a rubric, scores, and the step of each "no"."""
