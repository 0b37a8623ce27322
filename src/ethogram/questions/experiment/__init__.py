"""Results of paired experiments, and the list of operators."""
