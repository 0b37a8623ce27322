"""What perturbed attempts do differently: paired experiments, and the list of operators."""
