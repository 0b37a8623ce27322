"""Repeat episodes from recorded answers, and ask a model for each decision again."""
