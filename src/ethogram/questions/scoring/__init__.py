"""What a run looks like when it is scored again: by a suite, by labels, by other checks."""
