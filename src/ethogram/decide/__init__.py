"""From estimates to the next step: a verdict, or the runs most worth buying."""
