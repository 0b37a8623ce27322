"""Did my change break it, may it ship? Comparison, the gate's verdict, tasks that moved, runs that are needed."""
