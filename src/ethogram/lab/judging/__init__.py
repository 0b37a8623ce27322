"""What judges said of a run: shares of runs per item of a rubric, scores, and where each "no" stands."""
