"""Options that have a new spelling: the old one is refused, and the sentence names the new one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

RENAMED = {
    "--baseline": "--against",
    "--baseline-condition": "--against-condition",
    "--max-concurrency": "--workers",
    "--other-run": "--against",
    "--scorer": "--score",
}
"""Old spelling to new, in every verb that has the new one."""

RENAMED_IN = {
    "explore": {"--trace": "--store-traces"},
    "gate": {"--run": "--buy"},
    "perturb": {"--csv": "--out"},
    "plan": {"--price": "--usd-per-run"},
}
"""The same for spellings that mean something else in other verbs."""

BOTH = ("compare", "gate", "report")
"""Verbs that take both runs as arguments, the baseline first."""


def spelled_as_argument(verb: str, option: str, arguments: Sequence[str]) -> str | None:
    """What to write where a run is given as an option that the verb takes as an argument; None of other options.

    Example: `spelled_as_argument("stats", "--run", ["run"])` gives `the run is an argument: ethogram stats RUN`.
    """
    if option in ("--baseline", "--against", "--base") and verb in BOTH:
        return f"the baseline is the first argument: ethogram {verb} BASE CANDIDATE"
    if option == "--run" and {"run", "pilot"} & set(arguments):
        return f"the run is an argument: ethogram {verb} RUN"
    if option == "--run" and "runs" in arguments:
        return f"runs are arguments: ethogram {verb} RUN RUN"
    return "which k to estimate is given with --k, such as --k 1,2,4" if (verb, option) == ("stats", "-k") else None


def new_spelling(verb: str, option: str) -> str | None:
    """How an option of a verb is spelled now, or None if it never had another spelling.

    Example: `new_spelling("gate", "--run")` gives `--buy`.
    """
    return RENAMED_IN.get(verb, {}).get(option) or RENAMED.get(option)


def unknown_option(error: Any) -> str | None:
    """What click says of an option that a verb does not have, as our sentence; None of other errors."""
    if not hasattr(error, "possibilities"):
        return None
    name = error.message.removeprefix("No such option: ")  # in which control characters are escaped
    similar = ", ".join(sorted(error.possibilities or ()))
    return f"there is no option {name}; similar: {similar}" if similar else f"there is no option {name}"
