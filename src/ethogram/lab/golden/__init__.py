"""Which tasks may a score rest on? Golden sets: frozen, versioned, checked for contamination and for health."""
