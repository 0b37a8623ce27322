"""Run explorations: propose points, buy their episodes, commit a round, decide again."""
