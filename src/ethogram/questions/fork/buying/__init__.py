"""The parts of fork that buy attempts or calls."""
