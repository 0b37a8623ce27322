"""OTLP over HTTP: spans that live agents send are kept durably, joined by trace, and written as traces of a run."""
