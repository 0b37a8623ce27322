"""Calls of models as they pass over HTTP: read them, record them, change them, answer them from a trace."""
