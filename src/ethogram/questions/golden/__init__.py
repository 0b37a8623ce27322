"""Golden sets: frozen, versioned suites, checked for contamination and for health."""
