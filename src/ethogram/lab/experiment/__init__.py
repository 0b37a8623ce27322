"""Did the damage do something? Results of paired experiments, and the operators there are."""
