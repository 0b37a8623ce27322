"""Where is it safe? Stored explorations, their maps and what the parameters do."""
