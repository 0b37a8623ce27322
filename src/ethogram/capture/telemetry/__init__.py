"""What all telemetry formats share: records out of JSON, raw spans gathered into traces, messages, tokens."""
