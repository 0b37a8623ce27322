"""Typed view models, the report and the viewer. Computes no statistic."""
