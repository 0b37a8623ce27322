"""Options that have a new spelling: the old one is refused, and the sentence names the new one."""

from __future__ import annotations

RENAMED = {
    "--baseline": "--against",
    "--baseline-condition": "--against-condition",
    "--csv": "--out",
    "--max-concurrency": "--workers",
    "--other-run": "--against",
    "--scorer": "--score",
}
"""Old spelling to new, in every verb that has the new one."""

RENAMED_IN = {
    "explore": {"--trace": "--store-traces"},
    "gate": {"--run": "--buy"},
    "plan": {"--price": "--usd-per-run"},
}
"""The same for spellings that mean something else in other verbs."""


def new_spelling(verb: str, option: str) -> str | None:
    """How an option of a verb is spelled now, or None if it never had another spelling.

    Example: `new_spelling("gate", "--run")` gives `--buy`.
    """
    return RENAMED_IN.get(verb, {}).get(option) or RENAMED.get(option)
