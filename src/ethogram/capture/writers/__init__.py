"""One small file per format that traces can be written in. Each has `FORMAT` and `write(traces, stream)`."""
