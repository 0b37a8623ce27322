"""Typed view models, then paper (report) and glass (web). Computes no statistic."""
