"""The loops that buy runs: propose, run, store, decide, again."""
