"""How a result shows itself in a notebook or a console: HTML, a few lines of words, a picture. Layout only."""

from .presentation import Drawing, Presentation

__all__ = ["Drawing", "Presentation"]
