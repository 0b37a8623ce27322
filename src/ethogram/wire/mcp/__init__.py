"""Between an MCP client and its server: tool calls become spans, may be disturbed, and are answered from a trace."""
