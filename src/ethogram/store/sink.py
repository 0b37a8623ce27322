"""The sink of one trace: redacts, addresses and buffers until the trace is complete.

So a published segment never holds half a trace. One that grows too large for memory spills: its texts into
segments of its own (sealed and redacted like all), its spans into an unnamed temporary file until its steps
can be numbered.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import IO, Any, Protocol

import msgspec

from ethogram.errors import EthogramError
from ethogram.traces import (
    Head,
    Label,
    Ref,
    Span,
    SpanId,
    Totals,
    TraceId,
    is_outcome_only,
    stated,
    step_order,
    text_ref,
    total,
)
from ethogram.traces.codec import check

from .entry import DataFile, Place
from .files import Files
from .head_texts import head_without_words, label_without_words
from .redact import Redactor
from .segment import TextRow, span_table, text_table


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """How much waits in memory: in a group before its commit, in a trace before it spills; and what is remembered."""

    group_spans: int = 100_000
    group_chars: int = 32 << 20
    spill_spans: int = 20_000
    spill_chars: int = 16 << 20
    remembered_texts: int = 200_000


class Host(Protocol):
    """What a sink needs of the run's writer."""

    files: Files
    path: str
    redactor: Redactor
    limits: Limits
    unmarked: set[str]
    """Values in which nothing was found, whichever field they stand in."""

    def stored(self, texts: Mapping[Ref, TextRow]) -> dict[Ref, str]:
        """Those of some texts that are stored already, each with its segment."""
        ...

    def clean(self, value: str, field: str) -> str:
        """A value, redacted."""
        ...

    def spill_name(self, kind: str) -> str:
        """A name for a segment of a trace's own."""
        ...

    def named(self, words: str) -> str:
        """A name made of words of a payload."""
        ...

    def publish(self, name: str, table: Any, *, seal: bool) -> DataFile:
        """Publish a segment."""
        ...

    def add(self, done: Done) -> None:
        """Take over a complete trace."""
        ...


class _Placed(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """What numbering steps needs to know of a span that was spilled."""

    span_id: SpanId
    parent_id: SpanId | None
    kind: str
    seq: int
    start_ns: int | None


class Done(msgspec.Struct):
    """A complete trace that waits for its commit."""

    head: Head
    totals: Totals
    labels: Sequence[Label]
    texts: dict[Ref, TextRow]
    used: set[str]
    files: list[DataFile]
    spilled: dict[Ref, str]
    spans: Sequence[Span] = ()
    places: tuple[Place, ...] = ()
    steps: dict[str, int] = {}
    supersedes: TraceId | None = None
    chars: int = 0


class TraceWriter:
    """The sink of one trace."""

    def __init__(self, run: Host, trace: TraceId, supersedes: TraceId | None) -> None:
        """Nothing is written before the trace is complete, unless it outgrows memory."""
        self._run = run
        self.idle = run.redactor.idle
        self._unmarked = run.unmarked
        self._trace = trace
        self.supersedes = supersedes
        self._spans: list[Span] = []
        self._texts: dict[Ref, TextRow] = {}
        self._refs: dict[str, Ref] = {}
        self._chars = 0
        self._used: set[str] = set()
        self._files: list[DataFile] = []
        self._gone: dict[Ref, str] = {}
        self._parts: IO[bytes] | None = None
        self._places: list[_Placed] = []

    def text(self, body: str, field: str, original: str | None = None) -> Ref:
        """Keep a text, redacted under the policy of its field.

        Whether the run holds it already is asked of all texts of a trace at once, when the trace is complete.
        """
        if field and not self.idle and body not in self._unmarked:
            redacted = self._run.clean(body, field)
            original = body if redacted != body else None
            body = redacted
        ref = self._refs.get(body)  # a result is in a message and in a span
        if ref is not None:
            return ref
        ref = text_ref(body)
        if ref in self._gone:
            return ref
        mark = None if original is None else self._run.redactor.mark(original)
        self._refs[body] = ref
        self._texts[ref] = TextRow(ref, body, len(body if original is None else original), mark)
        self._chars += len(body)
        if self._chars > self._run.limits.spill_chars:
            self._forget_stored()
            if self._chars > self._run.limits.spill_chars:
                self._spill_texts()
        return ref

    def clean(self, value: str, field: str) -> str:
        """A value, redacted under the policy of its field."""
        return value if value in self._unmarked else self._run.clean(value, field)

    def named(self, words: str) -> str:
        """A name made of words of a payload, which may be stored where they may."""
        return self._run.named(words)

    def span(self, span: Span) -> None:
        """Buffer a span, unless it could not be read again."""
        self._spans.append(check(span))
        if len(self._spans) >= self._run.limits.spill_spans:
            self._spill_spans()

    def finish(self, head: Head, labels: Sequence[Label]) -> None:
        """Hand the complete trace to its run."""
        head = check(head_without_words(head, self.text))
        done = self._done(head, [check(label_without_words(x, self.text)) for x in labels])
        self._files = []  # from here on they are the run's, whose next commit tries again if this one fails
        try:
            self._run.add(done)
        finally:
            self._forget_buffers()

    def abort(self) -> None:
        """Forget the trace, and remove parts of it that were published already: nobody refers to them."""
        self._forget_buffers()
        for file in self._files:
            with suppress(EthogramError):  # else they are left over, and swept one day
                self._run.files.delete(f"{self._run.path}/{file.name}")
        self._files = []

    def _done(self, head: Head, labels: Sequence[Label]) -> Done:
        done = Done(
            head=head,
            totals=Totals(),
            labels=labels,
            texts=self._texts,
            used=self._used,
            files=self._files,
            spilled=self._gone,
            supersedes=self.supersedes,
            chars=self._chars,
        )
        if is_outcome_only(head):
            done.totals = stated(head)
        elif self._parts is None:
            done.spans = self._spans
            steps = step_order(self._spans)
            done.steps = {s.span_id: i for i, s in enumerate(steps)}
            done.totals = total(self._spans, steps=steps)
        else:
            self._spill_spans()
            done.totals = total(self._spilled_spans(), self._places)
            done.places = self._publish_parts()
        return done

    def _forget_buffers(self) -> None:
        if self._parts is not None:
            self._parts.close()
        self._spans, self._texts, self._refs, self._parts, self._places = [], {}, {}, None, []

    def _forget_stored(self) -> None:
        """Let go of texts that the run holds already."""
        for ref, name in self._run.stored(self._texts).items():
            self._used.add(name)
            self._gone[ref] = name
            self._chars -= len(self._texts.pop(ref).body)
        self._refs = {}

    def _spill_texts(self) -> None:
        name = self._run.spill_name("texts")
        self._files.append(self._run.publish(name, text_table(self._texts.values()), seal=True))
        self._used.add(name)
        self._gone.update(dict.fromkeys(self._texts, name))
        self._texts, self._refs, self._chars = {}, {}, 0

    def _spill_spans(self) -> None:
        data = msgspec.json.encode(self._spans)
        with _temporary_space():
            if self._parts is None:
                self._parts = tempfile.TemporaryFile(prefix="ethogram-spans-")  # noqa: SIM115 - _forget_buffers closes
            self._parts.write(len(data).to_bytes(8, "little"))
            self._parts.write(data)
        self._places.extend(_Placed(s.span_id, s.parent_id, s.kind, s.seq, s.start_ns) for s in self._spans)
        self._spans = []

    def _spilled_parts(self) -> Iterator[list[Span]]:
        assert self._parts is not None
        decoder = msgspec.json.Decoder(list[Span])
        with _temporary_space():
            self._parts.seek(0)
            while length := self._parts.read(8):
                yield decoder.decode(self._parts.read(int.from_bytes(length, "little")))

    def _spilled_spans(self) -> Iterator[Span]:
        for part in self._spilled_parts():
            yield from part

    def _publish_parts(self) -> tuple[Place, ...]:
        steps: dict[str, int] = {s.span_id: i for i, s in enumerate(step_order(self._places))}
        places = []
        for part in self._spilled_parts():
            if part:
                name = self._run.spill_name("spans")
                self._files.append(self._run.publish(name, span_table(part, steps), seal=False))
                places.append(Place(name, 0, len(part)))
        return tuple(places)


@contextmanager
def _temporary_space() -> Iterator[None]:
    """A full temporary folder is this machine's failure, not the log's."""
    try:
        yield
    except OSError as error:
        raise EthogramError(
            f"cannot keep a large trace in {tempfile.gettempdir()}: {error.strerror or error}; free some space there, "
            "or set TMPDIR elsewhere; everything committed before is safe"
        ) from error
