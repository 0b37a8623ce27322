"""Turn live calls and foreign logs into traces, and traces into foreign formats. Nothing here decides what matters."""
