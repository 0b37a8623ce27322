"""Live calls: recorders, gateway, MCP, telemetry, receiver."""
