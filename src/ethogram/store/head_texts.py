"""Words of a head or a label are texts: the ledger and the labels keep their addresses, so that sealing covers them.

Why an outcome is missing, what an agent crashed with, a long fact or verdict: all of that may quote what the agent
read. Names, numbers and short identifiers stay where they are, so that counting and grouping need no key.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import msgspec

from ethogram.traces import Head, Label, Missing, Outcome, Ref

if TYPE_CHECKING:
    from .redact import Redactor

_DETAIL = "detail"
_META = "meta."
_IDENTIFIER = re.compile(r"[\w.:@/+=~,#%-]{0,64}")
_NAME, _SHOWN = 80, 60
"""The most that a name made of words has, and what is shown of longer ones."""
_SEARCHED = 1000  # what begins in the part that is shown is a secret by no more than this
_SHORT = 64
"""A verdict is one of a few, such as `Goal deviation`; what is longer was written for one trace."""

KeepText = Callable[[str, str], Ref]
"""Stores words under the policy of a field and gives their address."""


def head_without_words(head: Head, keep: KeepText) -> Head:
    """The head as a ledger holds it."""
    outcome, words = outcome_without_words(head.outcome, keep)
    meta = dict(head.meta)
    for name, value in head.meta.items():
        if isinstance(value, str) and not _IDENTIFIER.fullmatch(value):
            words[_META + name] = keep(value, "meta")
            del meta[name]
    return msgspec.structs.replace(head, outcome=outcome, meta=meta, words=words) if words else head


def outcome_without_words(outcome: Outcome, keep: KeepText) -> tuple[Outcome, dict[str, Ref]]:
    """An outcome as a ledger holds it, and where its words are."""
    if not isinstance(outcome, Missing) or not outcome.detail:
        return outcome, {}
    return Missing(outcome.reason), {_DETAIL: keep(outcome.detail, "error")}


def name_of_words(words: str, redactor: Redactor, *, sealed: bool) -> str:
    """A name made of words of a payload: they are redacted before they are cut, and a keyed hash tells long ones apart.

    Where payloads are sealed it is the hash alone, since names are not.
    """
    words = str(words)  # what is a name by now is no longer marked as words
    if sealed:
        return f"asked-{redactor.mark(words)[:12]}"
    if len(words) <= _NAME:
        return redactor.redact(words, "task").text
    return f"{redactor.redact(words[:_SEARCHED], 'task').text[:_SHOWN]}… {redactor.mark(words)[-8:]}"


def head_with_words(head: Head, get: Callable[[Ref], str]) -> Head:
    """The head as it was before its words became texts."""
    if not head.words:
        return head
    outcome, meta = head.outcome, dict(head.meta)
    for place, ref in head.words.items():
        if place == _DETAIL and isinstance(outcome, Missing):
            outcome = Missing(outcome.reason, get(ref))
        elif place.startswith(_META):
            meta[place.removeprefix(_META)] = get(ref)
    return msgspec.structs.replace(head, outcome=outcome, meta=meta, words={})


def fact_names(head: Head) -> set[str]:
    """The names of what a head knows, whether the values stand in it or became texts."""
    return {*head.meta, *(place.removeprefix(_META) for place in head.words if place.startswith(_META))}


def revised_words(words: dict[str, Ref], later: dict[str, Ref]) -> dict[str, Ref]:
    """Where the words of a head are once it has another outcome."""
    return {k: v for k, v in words.items() if k != _DETAIL} | later


def label_without_words(label: Label, keep: KeepText) -> Label:
    """The label as it is stored: a long verdict is a text."""
    if not isinstance(label.value, str) or len(label.value) <= _SHORT:
        return label
    return msgspec.structs.replace(label, value=None, words=keep(label.value, "label"))


def label_with_words(label: Label, get: Callable[[Ref], str]) -> Label:
    """The label as it was given."""
    return label if label.words is None else msgspec.structs.replace(label, value=get(label.words), words=None)


def named_refs(head: Head, labels: Iterable[Label]) -> list[Ref]:
    """Texts of a trace that no span names: the answer, words of the head, and those of its labels."""
    answer = [] if head.answer is None else [head.answer]
    said = [ref for label in labels for ref in (label.why, label.words) if ref is not None]
    return [*answer, *head.words.values(), *said]
