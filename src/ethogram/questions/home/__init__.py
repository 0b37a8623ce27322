"""What a home holds: list, show, query, export, verify and retain runs; a suite to begin with."""
