"""Our own JSON lines (see `ethogram.traces.codec`): what `export --to jsonl` writes and a recorder may leave.

Spans hold references and a draft holds words, so each span is opened again and goes the way of every
foreign log: whatever redaction the import asks for applies to our own files too. The texts of the trace
that is being read wait in a temporary file beyond `IN_MEMORY` bytes; kept in memory are an address per
text and the references of each model span, so that a long trace costs its metadata, not its words.
"""

from __future__ import annotations

from collections.abc import Iterator
from tempfile import SpooledTemporaryFile
from typing import Any, NamedTuple

import msgspec

from ethogram.capture.builder import TraceBuilder
from ethogram.capture.draft import Draft, LabelDraft
from ethogram.capture.intake import Intake
from ethogram.capture.parse import from_json
from ethogram.capture.peek import Peek
from ethogram.capture.source import Source
from ethogram.errors import Unreadable
from ethogram.traces import Head, Label, Message, Ref, Span, SpanId, Text, unpack_message
from ethogram.traces.codec import SCHEMA_VERSION, UPGRADES, EndLine, HeadLine, Line, TextLine, decode_line

FORMAT = "jsonl"
IN_MEMORY = 32 << 20

NumberedLines = Iterator[tuple[int, Line]]
_SAME = (
    *(
        "kind",
        "name",
        "seq",
        "span_id",
        "parent_id",
        "agent",
        "lane",
        "start_ns",
        "end_ns",
        "status",
        "model",
        "provider",
    ),
    *("prompt_version", "params", "tool", "call_id", "truncated", "input_tokens", "cache_read_tokens"),
    *("cache_write_tokens", "output_tokens", "reasoning_tokens", "cost_usd", "stop_reason"),
)
"""Fields that a span and a draft share as they are."""
MARKS = frozenset(["schema_version"])


def sniff(peek: Peek) -> int:
    """The first line announces a trace and its schema version."""
    return 99 if peek.first.get("type") == "trace" and "schema_version" in peek.first else 0


def read(source: Source, intake: Intake) -> None:
    """One trace between each `trace` line and its `end` line."""
    damage: list[Unreadable] = []
    lines = _until_damage(source.objects(intake.skip), damage)
    pending = next(lines, None)
    if pending is None and not damage:
        intake.skip(source.name, "no trace in it")
    while pending is not None:
        number, line = pending
        where = f"line {number}"
        if line.get("type") != "trace":
            intake.skip(where, "a line that belongs to no trace")
            pending = next(lines, None)
            continue
        why = _unreadable_version(line.get("schema_version"))
        if why:
            intake.skip(where, why)
            pending = _next_trace(lines)
            continue
        rest: list[tuple[int, Line] | None] = []
        with intake.record(where):
            _read_trace(where, line, lines, rest, intake)
        pending = rest[0] if rest else _next_trace(lines)
    if damage:
        raise damage[0]


def _until_damage(lines: NumberedLines, damage: list[Unreadable]) -> NumberedLines:
    """Lines up to where the bytes themselves break off: the open trace must be kept before that is reported."""
    try:
        yield from lines
    except Unreadable as error:
        damage.append(error)


def _unreadable_version(version: Any) -> str:
    """Why a trace of this schema version cannot be read; empty if it can."""
    if not isinstance(version, int) or isinstance(version, bool):
        return f"schema_version is {version!r}, not a number"
    if version > SCHEMA_VERSION:
        return (
            f"the trace is written in schema version {version} and this Ethogram reads up to {SCHEMA_VERSION}; "
            "upgrade Ethogram to read it"
        )
    if any(step not in UPGRADES for step in range(version, SCHEMA_VERSION)):
        return f"there never was a schema version {version}"
    return ""


def _next_trace(lines: NumberedLines) -> tuple[int, Line] | None:
    """Skip to the next `trace` line: what stands between was reported with its own."""
    return next((entry for entry in lines if entry[1].get("type") == "trace"), None)


def _read_trace(
    where: str, first: Line, lines: NumberedLines, rest: list[tuple[int, Line] | None], intake: Intake
) -> None:
    """Read up to the end of the trace; `rest` receives the line to go on with."""
    version = int(first["schema_version"])
    head_line = decode_line(first, version)
    assert isinstance(head_line, HeadLine)
    head = head_line.head
    with intake.trace(head.episode or head.trace_id, worldwide=True) as trace, _Texts(trace) as texts:
        rebuild = _Rebuild(trace, texts)
        ended = False
        for number, line in lines:
            if line.get("type") == "trace":
                rest.append((number, line))
                break
            with intake.record(f"line {number}"):
                record = decode_line(line, version)
                if isinstance(record, EndLine):
                    ended = True
                    if record.spans != trace.spans:
                        intake.skip(where, f"the trace says {record.spans} spans and has {trace.spans}")
                    break
                rebuild.add(record)
        if not ended:
            intake.skip(where, "the trace has no end line: it was cut off; what came before the cut is kept")
        _set_head(trace, head, texts)
    if not rest:
        rest.append(next(lines, None))


def _set_head(trace: TraceBuilder, head: Head, texts: _Texts) -> None:
    trace.task = head.task
    trace.attempt = head.attempt
    trace.condition = head.condition
    trace.agent = head.agent
    trace.seed = head.seed
    trace.outcome = head.outcome
    trace.answer = texts.words(head.answer)
    trace.meta = dict(head.meta)


class _Texts:
    """The texts of one trace by their address; long ones wait on disk."""

    def __init__(self, trace: TraceBuilder) -> None:
        self._trace = trace
        self._places: dict[str, tuple[int, int]] = {}
        self._file = SpooledTemporaryFile(max_size=IN_MEMORY)  # noqa: SIM115 - closed by __exit__

    def __enter__(self) -> _Texts:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def add(self, ref: str, body: str) -> None:
        data = body.encode("utf-8", "surrogatepass")
        start = self._file.seek(0, 2)
        self._file.write(data)
        self._places[ref] = (start, len(data))

    def words(self, ref: Ref | None) -> str | None:
        """The body; a text that the file does not have is counted and left out."""
        if ref is None:
            return None
        if ref not in self._places:
            self._trace.lose("text (missing)")
            return None
        start, length = self._places[ref]
        self._file.seek(start)
        return self._file.read(length).decode("utf-8", "surrogatepass")

    def messages(self, refs: tuple[Ref, ...]) -> list[Message]:
        bodies = [body for ref in refs if (body := self.words(ref)) is not None]
        return [self._message(body) for body in bodies]

    def _message(self, body: str) -> Message:
        try:
            return unpack_message(body, lambda ref: self.words(ref) or "")
        except msgspec.MsgspecError:
            self._trace.lose("message (not as we write it)")
            return Message("other", (Text(body),))


class _Link(NamedTuple):
    """What later spans need to know of a model span to continue it."""

    continues: SpanId | None
    keep: int
    input: tuple[Ref, ...]
    output: tuple[Ref, ...]

    @property
    def length(self) -> int:
        return (self.keep if self.continues else 0) + len(self.input) + len(self.output)


class _Rebuild:
    """Turns spans back into drafts."""

    def __init__(self, trace: TraceBuilder, texts: _Texts) -> None:
        self._trace = trace
        self._texts = texts
        self._links: dict[SpanId, _Link] = {}
        self._last: dict[str, SpanId] = {}

    def add(self, record: HeadLine | TextLine | Span | Label) -> None:
        """Add one line of the trace."""
        if isinstance(record, TextLine):
            self._texts.add(record.ref, record.body)
        elif isinstance(record, Span):
            self._span(record)
        elif isinstance(record, Label):
            self._label(record)

    def _span(self, span: Span) -> None:
        words = self._texts.words
        output = self._texts.messages(span.output)
        refs, growing = self._input(span)
        attributes = from_json(words(span.attributes) or "{}")
        draft = Draft(
            **{field: getattr(span, field) for field in _SAME},
            error=words(span.error),
            input=self._texts.messages(refs),
            growing=growing,
            output=output,
            arguments=words(span.arguments),
            result=words(span.result),
            attributes=attributes if isinstance(attributes, dict) else {"attributes": attributes},
        )
        if span.result_hash is not None:
            self._trace.lose("result_hash")
        if span.requested != tuple(call.name for m in output for call in m.tool_calls):
            self._trace.lose("requested (not in the output)")
        self._trace.add(draft)
        if span.kind == "model":
            self._links[span.span_id] = _Link(span.continues, span.keep, span.input, span.output)
            self._last[span.lane] = span.span_id

    def _input(self, span: Span) -> tuple[tuple[Ref, ...], bool]:
        """References of the input, and whether they only add to the last call of the lane."""
        above = self._links.get(span.continues) if span.continues else None
        if above is None or span.continues is None:
            return span.input, False
        if span.kind == "model" and span.continues == self._last.get(span.lane) and span.keep == above.length:
            return span.input, True
        return (*self._whole(span.continues)[: span.keep], *span.input), False

    def _whole(self, span_id: SpanId) -> list[Ref]:
        """All references of a model span's input and output: walks back along what it continues."""
        chain: list[_Link] = []
        seen: set[SpanId] = set()
        at: SpanId | None = span_id
        while at is not None and at in self._links and at not in seen:
            seen.add(at)
            chain.append(self._links[at])
            at = chain[-1].continues
        refs: list[Ref] = []
        for link in reversed(chain):
            del refs[link.keep :]
            refs.extend((*link.input, *link.output))
        return refs

    def _label(self, label: Label) -> None:
        self._trace.add_label(
            LabelDraft(
                name=label.name,
                value=label.value,
                by=label.by,
                source=label.source,
                why=self._texts.words(label.why),
                span_id=label.span_id,
                version=label.version,
                at_ns=label.at_ns,
            )
        )
