"""Foreign logs into the lake: import, tasks and outcomes that the logs lack, what redaction would take out."""
