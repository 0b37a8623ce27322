"""The parts of experiment that buy attempts or calls."""
