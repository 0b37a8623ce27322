"""Arrays in, arrays or small results out: no names, no defaults that are policy, no files, no logging.

Batch axes come first and a new axis is always last; a function that draws takes a generator. Import the module
that is needed (`from ethogram.statistics import passk`): nothing is loaded here, and scipy only on use.
"""
