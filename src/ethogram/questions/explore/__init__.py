"""In which settings an agent fails too often: grids, maps, strategies that choose what to run next."""
