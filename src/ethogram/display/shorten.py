"""Cut a text or a list to a length; it then ends in a sign that something is left out."""

from __future__ import annotations

from collections.abc import Sequence


def shortened(text: str, most: int) -> str:
    """A text of at most `most` characters; one that is longer ends in an ellipsis.

    Example: `shortened("booking", 5)` is `"book…"`
    """
    return text if len(text) <= most else text[: most - 1] + "…"


def shortened_list(words: Sequence[str], most: int) -> str:
    """At most `most` of these with commas between them, and how many more there are.

    Example: `shortened_list(["tea", "milk", "rice"], 2)` is `"tea, milk and 1 more"`
    """
    more = f" and {len(words) - most} more" if len(words) > most else ""
    return ", ".join(words[:most]) + more
