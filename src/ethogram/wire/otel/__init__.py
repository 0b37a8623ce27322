"""Spans of OpenTelemetry in this process: into the trace of their episode, or into a run of a home."""
