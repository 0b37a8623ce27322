"""Stored explorations: their maps, and the effects of their parameters."""
