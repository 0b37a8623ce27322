"""Incidents of production: owner, rollback, and the golden task that guards against each."""
