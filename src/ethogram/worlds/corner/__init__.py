"""A corner shop with settings: a small world to explore. Its tools read the settings of the grid point."""
