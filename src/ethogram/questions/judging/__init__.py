"""What judges say of a run: shares of attempts per item of a rubric, scores, and the step of each "no"."""
