"""How far apart are attempts? Two traces, all repeats of a task, two runs; the noise floor."""
