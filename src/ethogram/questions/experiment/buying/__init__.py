"""Run paired experiments: clean and perturbed attempts with the same seeds."""
