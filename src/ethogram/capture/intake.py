"""Where readers and recorders put what they found.

A reader opens a trace, adds drafts in the order of the log, and closes it; what it cannot use it
reports. The builder turns drafts (with words) into spans (with references) and mends what would break
later readers: repeated ids, impossible times, negative counts. Every repair is counted in `lost`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Protocol

import ijson
import msgspec

from ethogram.errors import BadInput
from ethogram.trace import (
    KINDS,
    STATUSES,
    TOKEN_FIELDS,
    EpisodeId,
    Head,
    Kind,
    Label,
    LabelSource,
    Message,
    Missing,
    Origin,
    Outcome,
    Param,
    Ref,
    Span,
    SpanId,
    Status,
    TraceId,
    episode_id,
    pack_message,
    text_ref,
    trace_id,
)
from ethogram.trace.codec import check

MAX_NS = 7_258_118_400_000_000_000  # the year 2200: later times are damage, not data
MAX_COUNT = 1 << 53
REMEMBERED_CHARS = 4 << 20
REMEMBERED_TALKS = 4  # conversations that take turns in one lane


RECORD_ERRORS = (
    ValueError,  # msgspec and ijson errors are ValueErrors
    TypeError,
    KeyError,
    AttributeError,
    IndexError,
    RecursionError,
    OverflowError,
    ijson.JSONError,
    BadInput,
)
_WHY: dict[type, str] = {
    ijson.IncompleteJSONError: "the JSON is cut off",
    ijson.JSONError: "the JSON is damaged",
    RecursionError: "nested too deeply",
}


class Draft(msgspec.Struct, kw_only=True):
    """A span with its words still in it.

    `input` is the full input of a model call; with `growing`, only the messages that are new since the
    last model call of the same lane (chat logs know this and save the comparison). `seq` is for recorders,
    which add a span when it ends but number it when it begins.
    """

    kind: Kind
    name: str
    seq: int | None = None
    span_id: str | None = None
    parent_id: str | None = None
    agent: str = ""
    lane: str = ""
    start_ns: int | None = None
    end_ns: int | None = None
    status: Status = "unset"
    error: str | None = None
    model: str | None = None
    provider: str | None = None
    prompt_version: str | None = None
    params: dict[str, Any] = {}
    input: Sequence[Message] = ()
    growing: bool = False
    output: Sequence[Message] = ()
    tool: str | None = None
    call_id: str | None = None
    arguments: str | None = None
    result: str | None = None
    truncated: bool = False
    input_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    output_tokens: int | None = None
    reasoning_tokens: int | None = None
    cost_usd: float | None = None
    stop_reason: str | None = None
    attributes: dict[str, Any] = {}


class TraceSink(Protocol):
    """Receives one trace; redaction and storage happen behind it."""

    def text(self, body: str, field: str, original: str | None = None) -> Ref:
        """Keep a text and give its address; no `field` means that it is clean already, and was `original` before."""
        ...

    def clean(self, value: str, field: str) -> str:
        """A short piece of metadata, redacted."""
        ...

    def span(self, span: Span) -> None:
        """Keep a span."""
        ...

    def finish(self, head: Head, labels: Sequence[Label]) -> None:
        """The trace is complete."""
        ...

    def abort(self) -> None:
        """Forget the trace."""
        ...


class Skipped(msgspec.Struct, frozen=True):
    """A record that could not be used: where it stands and why."""

    where: str
    why: str


class SourceReport(msgspec.Struct, kw_only=True):
    """What became of one file."""

    source: str
    format: str | None = None
    traces: int = 0
    spans: int = 0
    unchanged: int = 0
    labels: int = 0
    skipped: list[Skipped] = []
    skipped_more: int = 0
    lost: dict[str, int] = {}

    def skip(self, where: str, why: str) -> None:
        """List a record that could not be used; beyond a hundred they are only counted."""
        if len(self.skipped) < 100:
            self.skipped.append(Skipped(where, why[:500]))
        else:
            self.skipped_more += 1

    def lose(self, field: str, count: int = 1) -> None:
        """Count what could not be represented."""
        if count > 0:
            self.lost[field] = self.lost.get(field, 0) + count

    def end(self) -> None:
        """The source was read to its end; that nothing was in it is worth a word."""
        if not (self.traces or self.unchanged or self.labels or self.skipped):
            self.skip(self.source, "there is no trace in it")


Settle = Callable[[Head, Sequence[Label], int], Head | None]
"""Completes or refuses the head of a trace, given its labels and its number of spans."""


class Annotation(msgspec.Struct):
    """Labels of a trace that another source holds.

    `episode` names that trace. Labels have no trace id yet; their `why` are words, their `span_id` is the log's own.
    """

    episode: EpisodeId
    labels: list[Label]


class Intake:
    """What a reader talks to while it reads one source."""

    def __init__(
        self,
        open_sink: Callable[[TraceId], TraceSink],
        origin: Origin,
        report: SourceReport,
        settle: Settle | None = None,
        place: str | None = None,
    ) -> None:
        """`settle` may complete a head (task, outcome, attempt) or refuse the trace by returning None.

        `place` stands for the source in the names of its episodes; by default the name of the source does.
        """
        self._open = open_sink
        self.origin = origin
        self.report = report
        self._settle = settle or (lambda head, labels, spans: head)
        self._place = origin.name if place is None else place
        self._keys: Counter[str] = Counter()
        self.annotations: list[Annotation] = []

    def skip(self, where: str, why: str) -> None:
        """Report a record that could not be used."""
        self.report.skip(where, why)

    def lose(self, field: str, count: int = 1) -> None:
        """Report what could not be represented."""
        self.report.lose(field, count)

    @contextmanager
    def record(self, where: str) -> Iterator[None]:
        """One foreign record: whatever is wrong with its shape is reported, and the reader goes on."""
        try:
            yield
        except RECORD_ERRORS as error:
            why = str(error).split("\n", 1)[0] or type(error).__name__
            self.skip(where, f"{_WHY.get(type(error), 'not as this format writes it')}: {why}")

    @contextmanager
    def trace(self, key: str, *, worldwide: bool = False) -> Iterator[TraceBuilder]:
        """Open a trace; `key` names it inside its source, or everywhere (a uuid) if `worldwide`.

        An error inside the block forgets the trace and travels on.
        """
        if key in self._keys:
            self.lose("trace key (repeated)")
        key = _unlike(key, self._keys)
        place = "" if worldwide else self._place
        builder = TraceBuilder(
            self,
            trace_id(self.origin.format, self.origin.digest, key),
            episode_id(self.origin.format, place, key),
        )
        try:
            yield builder
            builder.close()
        except BaseException:
            builder.abort()
            raise

    def annotate(self, key: str, labels: list[Label]) -> None:
        """Labels for the trace that is known by this key everywhere, whichever source holds it."""
        self.annotations.append(Annotation(episode_id(self.origin.format, "", key), labels))
        self.report.labels += len(labels)

    def open_sink(self, trace: TraceId) -> TraceSink:
        """Where the spans of a new trace go."""
        return self._open(trace)

    def settle(self, head: Head, labels: Sequence[Label], spans: int) -> Head | None:
        """The final head of a trace, or None if it must not be kept."""
        return self._settle(head, labels, spans)


class TraceBuilder:
    """Collects one trace. Set `task`, `attempt`, `outcome`, … at any time before it closes."""

    def __init__(self, intake: Intake, trace: TraceId, episode: EpisodeId) -> None:
        """Open the sink. Ids derive from the source or the plan, so that the same log gives the same ids."""
        self.trace_id = trace
        self.episode = episode
        self.task = ""
        self.attempt: int | None = None
        self.condition = ""
        self.agent = ""
        self.seed: int | None = None
        self.outcome: Outcome = Missing("unscored")
        self.answer: str | None = None
        self.meta: dict[str, Any] = {}
        self.spans = 0
        self._intake = intake
        self._sink = intake.open_sink(self.trace_id)
        self._labels: list[Label] = []
        self._ids: Counter[str] = Counter()
        self._packed: dict[Message, Ref] = {}
        self._packed_chars = 0
        self._used = [0.0, 0.0]
        self._talk: dict[str, list[tuple[SpanId, list[Ref]]]] = {}
        self._start: int | None = None
        self._end: int | None = None

    def lose(self, field: str, count: int = 1) -> None:
        """Report what could not be represented."""
        self._intake.lose(field, count)

    def add(self, draft: Draft) -> SpanId:
        """Add a span and give its id (a repeated id gets a suffix)."""
        span_id = self._new_id(draft.span_id)
        continues, keep, fresh, whole = self._context(draft)
        output = tuple(self._message(m, "output") for m in draft.output)
        if draft.kind == "model":
            whole.extend(output)
            talks = self._talk.setdefault(draft.lane, [])
            talks.append((span_id, whole))
            del talks[:-REMEMBERED_TALKS]
        start, end = self._times(draft)
        tokens: dict[str, Any] = {f: self._count(getattr(draft, f), f) for f in TOKEN_FIELDS}
        span = Span(
            trace_id=self.trace_id,
            span_id=span_id,
            seq=self.spans if (seq := self._small(draft.seq, "seq")) is None else seq,
            kind=draft.kind if draft.kind in KINDS else "other",
            name=self._clean(draft.name, "name"),
            parent_id=SpanId(self._clean(draft.parent_id, "name")) if draft.parent_id else None,
            agent=self._clean(draft.agent, "name"),
            lane=self._clean(draft.lane, "name"),
            start_ns=start,
            end_ns=end,
            status=self._status(draft),
            error=self._text(draft.error, "error"),
            model=self._clean(draft.model, "name") or None,
            provider=self._clean(draft.provider, "name") or None,
            prompt_version=self._clean(draft.prompt_version, "name") or None,
            params=self._params(draft.params),
            continues=continues,
            keep=keep,
            input=fresh,
            output=output,
            requested=tuple(self._clean(c.name, "name") for m in draft.output for c in m.tool_calls),
            tool=self._clean(draft.tool, "name") or None,
            call_id=self._clean(draft.call_id, "name") or None,
            arguments=self._text(draft.arguments, "arguments"),
            result=self._text(draft.result, "result"),
            truncated=draft.truncated,
            cost_usd=self._money(draft.cost_usd),
            stop_reason=self._clean(draft.stop_reason, "name") or None,
            attributes=self._text(_json(draft.attributes), "attributes") if draft.attributes else None,
            **tokens,
        )
        self.spans += 1
        if span.kind == "model":
            self._used[0] += sum(getattr(span, f) or 0 for f in TOKEN_FIELDS[:4])
            self._used[1] += span.cost_usd or 0.0
        self._sink.span(span)
        return span_id

    def lasted(self, start_ns: int, end_ns: int) -> None:
        """The time from when the agent got its task until it had ended, which its spans need not cover."""
        self._start = start_ns if self._start is None else min(self._start, start_ns)
        self._end = end_ns if self._end is None else max(self._end, end_ns)

    def usage(self) -> tuple[float, float]:
        """Tokens and dollars of the model spans so far."""
        return self._used[0], self._used[1]

    def label(
        self,
        name: str,
        value: float | bool | str | None,
        *,
        by: str,
        source: LabelSource = "import",
        why: str | None = None,
        span_id: str | None = None,
        version: str = "1",
        at_ns: int | None = None,
    ) -> None:
        """Attach a score or a note to the trace, or to one span; one that cannot be stored is listed as skipped."""
        said = {"name": name, "value": value, "by": by, "why": why, "version": version}
        with self._intake.record(f"label {name!r:.80}"):
            self._labels.append(self._label(said, source, span_id, at_ns))

    def _label(self, said: dict[str, Any], source: LabelSource, span_id: str | None, at_ns: int | None) -> Label:
        value = said["value"]
        if isinstance(value, int | float) and not isinstance(value, bool):
            value = self._number(value)
        if isinstance(value, str):
            value = self._clean(value, "label")
        return check(
            Label(
                trace_id=self.trace_id,
                name=self._clean(said["name"], "label"),
                value=value,
                by=self._clean(said["by"], "label"),
                source=source,
                why=self._text(said["why"], "label"),
                span_id=SpanId(self._clean(span_id, "name")) if span_id else None,
                version=self._clean(said["version"], "label"),
                at_ns=self._time(at_ns),
            )
        )

    def close(self) -> None:
        """Commit the trace, unless the import refuses it."""
        head = Head(
            trace_id=self.trace_id,
            episode=self.episode,
            task=self._clean(self.task, "task"),
            attempt=self._numbered(),
            condition=self._clean(self.condition, "task"),
            agent=self._clean(self.agent, "name"),
            seed=self.seed,
            outcome=self._verdict(self.outcome),
            answer=self._text(self.answer, "answer"),
            start_ns=self._start,
            end_ns=self._end,
            meta=self._params(self.meta),
            origin=self._intake.origin,
        )
        settled = self._intake.settle(check(head), self._labels, self.spans)
        if settled is None:
            self._sink.abort()
            return
        self._sink.finish(settled, self._labels)
        self._intake.report.traces += 1
        self._intake.report.spans += self.spans

    def abort(self) -> None:
        """Forget everything about this trace."""
        self._sink.abort()

    def _status(self, draft: Draft) -> Status:
        status: Status = draft.status if draft.status in STATUSES else "unset"
        return "error" if draft.error is not None and status == "unset" else status

    def _new_id(self, wanted: str | None) -> SpanId:
        span_id = self._clean(wanted, "name") if wanted else f"s{self.spans}"
        if span_id in self._ids:
            self.lose("span_id (repeated)")
        return SpanId(_unlike(span_id, self._ids))

    def _context(self, draft: Draft) -> tuple[SpanId | None, int, tuple[Ref, ...], list[Ref]]:
        """What the input continues, how much of it, the new references, and the whole input."""
        refs = [self._message(m, "input") for m in draft.input]
        talks = self._talk.get(draft.lane)
        if draft.kind != "model" or not talks:
            return None, 0, tuple(refs), refs
        if draft.growing:
            last_id, before = talks.pop()
            length = len(before)
            before.extend(refs)  # the list grows in place: a chat of n messages must not be copied n times
            return last_id, length, tuple(refs), before
        keep, best = max((_common(before, refs), i) for i, (_, before) in enumerate(talks))
        if keep == 0:
            return None, 0, tuple(refs), refs
        return talks[best][0], keep, tuple(refs[keep:]), refs

    def _message(self, message: Message, field: str) -> Ref:
        """Keep a message. Contexts are sent again at every call, so what was packed before is remembered."""
        known = self._packed.get(message)
        if known is not None:
            return known
        before: dict[str, str] = {}

        def clean(value: str) -> str:
            redacted = self._clean(value, field)
            if redacted != value:
                before[redacted] = without_surrogates(value)
            return redacted

        cleaned = _clean_message(message, clean)
        packed = pack_message(cleaned, lambda body: self._sink.text(body, "", before.get(body)))
        original = pack_message(_clean_message(message, without_surrogates), text_ref) if before else None
        ref = self._sink.text(packed, "", original)
        self._packed_chars += len(packed)
        if self._packed_chars > REMEMBERED_CHARS:
            self._packed.clear()
            self._packed_chars = len(packed)
        self._packed[message] = ref
        return ref

    def _text(self, body: str | None, field: str) -> Ref | None:
        return None if body is None else self._sink.text(without_surrogates(body), field)

    def _clean(self, value: str | None, field: str) -> str:
        return "" if not value else self._sink.clean(without_surrogates(value), field)

    def _verdict(self, outcome: Outcome) -> Outcome:
        """The outcome with its words redacted: what failed is often told with the secret that it failed on."""
        if isinstance(outcome, Missing):
            return msgspec.structs.replace(outcome, detail=self._clean(outcome.detail, "error"))
        return msgspec.structs.replace(outcome, by=self._clean(outcome.by, "label"))

    def _params(self, params: dict[str, Any]) -> dict[str, Param]:
        kept: dict[str, Param] = {}
        for name, value in params.items():
            if value is None or (isinstance(value, float) and not math.isfinite(value)):
                continue
            name = self._clean(str(name), "meta")
            if isinstance(value, bool | int | float):
                kept[name] = value
            else:
                kept[name] = self._fact(name, value if isinstance(value, str) else _json(value))
        return kept

    def _fact(self, name: str, value: str) -> str:
        """A value that a name is given to, redacted: of a password only the name may tell what it is."""
        lead = f"{name}="
        told = self._clean(lead + value, "meta")
        return told[len(lead) :] if told.startswith(lead) else self._clean(value, "meta")

    def _times(self, draft: Draft) -> tuple[int | None, int | None]:
        start, end = self._time(draft.start_ns), self._time(draft.end_ns)
        if start is not None and end is not None and end < start:
            self.lose("end time (before start)")
            end = None
        if start is not None:
            self._start = start if self._start is None else min(self._start, start)
        last = end if end is not None else start
        if last is not None:
            self._end = last if self._end is None else max(self._end, last)
        return start, end

    def _time(self, ns: int | None) -> int | None:
        if ns is None or 0 < ns < MAX_NS:
            return ns
        self.lose("time (out of range)")
        return None

    def _count(self, value: int | None, field: str) -> int | None:
        if value is None or 0 <= value < MAX_COUNT:
            return value
        self.lose(f"{field} (out of range)")
        return None

    def _numbered(self) -> int:
        """The attempt; -1 stands for one that has no number yet."""
        given = self._small(None if self.attempt == -1 else self.attempt, "attempt")
        return -1 if given is None else given

    def _small(self, value: int | None, field: str) -> int | None:
        """A position: what a column of 32 bits can hold."""
        if value is None or 0 <= value < 1 << 31:
            return value
        self.lose(f"{field} (out of range)")
        return None

    def _number(self, value: float) -> float | None:
        """A number of any kind, as a finite one."""
        with suppress(OverflowError):
            if math.isfinite(number := float(value)):
                return number
        self.lose("label value (not finite)")
        return None

    def _money(self, value: float | None) -> float | None:
        if value is None or (math.isfinite(value) and value >= 0):
            return value
        self.lose("cost_usd (out of range)")
        return None


def _unlike(wanted: str, taken: Counter[str]) -> str:
    """The name itself; where it is taken, with a number behind it that no other name has."""
    taken[wanted] += 1
    if taken[wanted] == 1:
        return wanted
    while (name := f"{wanted}#{taken[wanted]}") in taken:
        taken[wanted] += 1
    taken[name] += 1
    return name


def _common(before: Sequence[Ref], refs: Sequence[Ref]) -> int:
    """How many references two lists have in common at their start."""
    for i, (known, ref) in enumerate(zip(before, refs, strict=False)):
        if known != ref:
            return i
    return min(len(before), len(refs))


def without_surrogates(value: str) -> str:
    """Text that every later reader can hold: half characters (lone surrogates) become U+FFFD."""
    if value.isascii():
        return value
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return value


def _json(value: Any) -> str:
    """A foreign value as JSON text; what JSON cannot say becomes its printed form."""
    try:
        return msgspec.json.encode(value, enc_hook=str, order="sorted").decode()
    except UnicodeEncodeError:
        return msgspec.json.encode(_all_printable(value), enc_hook=str, order="sorted").decode()


def _all_printable(value: Any) -> Any:
    if isinstance(value, str):
        return without_surrogates(value)
    if isinstance(value, dict):
        return {_all_printable(k): _all_printable(v) for k, v in value.items()}
    return [_all_printable(v) for v in value] if isinstance(value, list | tuple) else value


def _clean_message(message: Message, clean: Callable[[str], str]) -> Message:
    """The message with every string in it redacted; the structure stays."""
    parts = []
    for part in message.parts:
        changes = {
            f: clean(v) for f in part.__struct_fields__ if isinstance(v := getattr(part, f), str) and f != "digest"
        }
        parts.append(msgspec.structs.replace(part, **changes))
    return Message(message.role, tuple(parts), clean(message.name) if message.name else None)
