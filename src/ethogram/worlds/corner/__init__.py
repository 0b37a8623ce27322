"""A corner shop whose manners can be set: a small world to explore. Its tools read the settings of the grid point."""
