"""Shared numbers: columns of outcomes and steps in, named estimates out. No store, no files."""
