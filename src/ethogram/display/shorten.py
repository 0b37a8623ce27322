"""One way to cut a text: it ends in a sign that something is gone."""

from __future__ import annotations


def shortened(text: str, most: int) -> str:
    """A text of at most `most` characters; one that is longer ends in an ellipsis.

    Example: `shortened("booking", 5)` is `"book…"`
    """
    return text if len(text) <= most else text[: most - 1] + "…"
