"""The parts of replay that buy attempts or calls."""
