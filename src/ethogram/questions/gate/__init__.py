"""Two runs compared: the comparison, the gate's verdict, tasks that moved, attempts that are needed."""
