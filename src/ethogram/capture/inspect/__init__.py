"""What the reader and the writer of Inspect logs share: storage, messages, events, scores. No `inspect_ai` here."""
