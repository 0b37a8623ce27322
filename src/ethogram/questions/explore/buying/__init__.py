"""The parts of explore that buy attempts or calls."""
