"""Whether an episode still goes as recorded, with the same or with other decisions."""
