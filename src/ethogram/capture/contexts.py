"""Messages that model calls read and write: each is stored once, and an input says which call it continues.

Agents send a growing conversation again at every call; what is stored stays linear in the number of distinct messages.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ethogram.traces import Message, Ref, SpanId, pack_message, text_ref

from .cleaning import clean_message
from .draft import Draft, TraceSink, without_surrogates

REMEMBERED_CHARS = 4 << 20
REMEMBERED_CONVERSATIONS = 4  # conversations that take turns in one lane


class _Conversation(NamedTuple):
    """A conversation up to the answer of one call: its references, and its messages where a log gives them whole."""

    span_id: SpanId
    refs: list[Ref]
    messages: list[Message]


class Context(NamedTuple):
    """What the input of a call continues, how much of it, the new references, and the whole input."""

    continues: SpanId | None
    keep: int
    fresh: tuple[Ref, ...]
    whole: list[Ref]


class Contexts:
    """Messages of one trace and the conversations that they form, lane by lane."""

    def __init__(self, sink: TraceSink) -> None:
        """`sink` keeps the texts and redacts them."""
        self._sink = sink
        self._plain = sink.idle
        self._packed: dict[Message, Ref] = {}
        self._packed_chars = 0
        self._talks: dict[str, list[_Conversation]] = {}

    def of(self, draft: Draft) -> Context:
        """The input of a draft, its messages kept."""
        talks = self._talks.get(draft.lane)
        if draft.kind != "model" or not talks:
            refs = [self.kept(m, "input") for m in draft.input]
            return Context(None, 0, tuple(refs), refs)
        last = talks[-1]
        if draft.growing:
            refs = [self.kept(m, "input") for m in draft.input]
            talks.pop()
            length = len(last.refs)
            last.refs.extend(refs)  # the list grows in place: a chat of n messages must not be copied n times
            return Context(last.span_id, length, tuple(refs), last.refs)
        known, fresh = len(last.messages), draft.input
        refs = []
        if known and list(draft.input[:known]) == last.messages:  # mostly the same objects, which costs no comparison
            refs, fresh = last.refs.copy(), draft.input[known:]
        refs += [self.kept(m, "input") for m in fresh]
        longest = max([len(talk.refs) for talk in talks])
        if known and fresh is not draft.input and longest == len(last.refs):  # no other can have more in common
            return Context(last.span_id, longest, tuple(refs[longest:]), refs)
        keep, best = max((_common(talk.refs, refs), i) for i, talk in enumerate(talks))
        if keep == 0:
            return Context(None, 0, tuple(refs), refs)
        return Context(talks[best].span_id, keep, tuple(refs[keep:]), refs)

    def answered(self, draft: Draft, span_id: SpanId, whole: list[Ref], output: tuple[Ref, ...]) -> None:
        """Remember the conversation up to the answer of a call, so that a later call can continue it."""
        whole.extend(output)
        talks = self._talks.setdefault(draft.lane, [])
        talks.append(_Conversation(span_id, whole, [] if draft.growing else [*draft.input, *draft.output]))
        del talks[:-REMEMBERED_CONVERSATIONS]

    def kept(self, message: Message, field: str) -> Ref:
        """Keep a message. Contexts are sent again at every call, so what was packed before is remembered."""
        known = self._packed.get(message)
        if known is not None:
            return known
        if self._plain:
            packed, original = self._plainly(message, field)
        else:
            packed, original = self._redacted(message, field)
        ref = self._sink.text(packed, "", original)
        self._packed_chars += len(packed)
        if self._packed_chars > REMEMBERED_CHARS:
            self._packed.clear()
            self._packed_chars = len(packed)
        self._packed[message] = ref
        return ref

    def _plainly(self, message: Message, field: str) -> tuple[str, str | None]:
        """The text of a message where nothing is redacted: as it is, unless there are half characters in it."""
        try:
            return pack_message(message, self._plain_text), None
        except UnicodeEncodeError:
            return self._redacted(message, field)

    def _plain_text(self, body: str) -> Ref:
        return self._sink.text(body if body.isascii() else without_surrogates(body), "")

    def _redacted(self, message: Message, field: str) -> tuple[str, str | None]:
        """The text of a message without its secrets, and what it was before if there were any."""
        before: dict[str, str] = {}
        clean_value, text = self._sink.clean, self._sink.text

        def clean(value: str) -> str:
            plain = value if value.isascii() else without_surrogates(value)
            redacted = clean_value(plain, field) if plain else plain
            if redacted != value:
                before[redacted] = plain
            return redacted

        cleaned = clean_message(message, clean)
        packed = pack_message(cleaned, lambda body: text(body, "", before.get(body)))
        original = pack_message(clean_message(message, without_surrogates), text_ref) if before else None
        return packed, original


def _common(before: Sequence[Ref], refs: Sequence[Ref]) -> int:
    """How many references two lists have in common at their start."""
    if refs[: len(before)] == before:
        return len(before)
    for i, (known, ref) in enumerate(zip(before, refs, strict=False)):
        if known != ref:
            return i
    return min(len(before), len(refs))
