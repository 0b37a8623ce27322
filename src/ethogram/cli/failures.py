"""Failures under `--json`: one document on stdout, the usual sentence on stderr, the same exit code."""

from __future__ import annotations

import sys
from typing import Any

import msgspec

from ethogram.result import Result

_OWN = (
    "where",
    "what",
    "name",
    "known",
    "option",
    "value",
    "choices",
    "have",
    "need",
    "of",
    "estimate",
    "key",
    "extra",
)


class Failure(Result, kw_only=True):
    """Why there is no answer.

    `error` is the sentence that stands on stderr, `kind` the class of the error (`usage` for an option or an argument
    that the verb does not take, `machine` for what the operating system refused, `stopped` after Ctrl-C), `hint` its
    part that says what to do. The other facts are those of the class (see the page about errors); None is unknown.
    """

    error: str
    kind: str
    verb: str
    exit_code: int
    where: str | None = None
    hint: str | None = None
    what: str | None = None
    name: str | None = None
    known: list[str] | None = None
    option: str | None = None
    value: str | None = None
    choices: list[str] | None = None
    have: int | None = None
    need: int | None = None
    of: str | None = None
    estimate: dict[str, Any] | None = None
    key: str | None = None
    extra: str | None = None


def wants_json(args: list[str]) -> bool:
    """Whether `--json` is among the options of the verb, not of a command behind `--`."""
    return "--json" in (args[: args.index("--")] if "--" in args else args)


def print_failure(verb: str, sentence: str, code: int, error: BaseException | None, kind: str = "") -> None:
    """The failure as one document on stdout."""
    facts: dict[str, Any] = {n: msgspec.to_builtins(v) for n in _OWN if (v := getattr(error, n, None)) is not None}
    if "value" in facts:
        facts["value"] = str(facts["value"])
    if isinstance(error, OSError):
        facts = {"where": str(error.filename)} if error.filename else {}
    failure = Failure(
        error=sentence,
        kind=kind or type(error).__name__,
        verb=verb,
        exit_code=code,
        hint=_hint(sentence),
        **facts,
    )
    from .printing import print_json

    print_json(failure)
    sys.stdout.flush()


def _hint(sentence: str) -> str | None:
    """What a sentence says should be done: what stands behind its semicolon, or the help that it points to."""
    said, _, help_of = sentence.rpartition(" (see: ")
    return help_of.rstrip(")") if said else sentence.partition("; ")[2] or None
