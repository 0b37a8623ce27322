"""The builder of one trace: turns drafts (with words) into spans (with references).

It mends what would break later readers: repeated ids, impossible times, negative counts. Every repair is counted in
`lost`. A log of a million spans passes through here, so the common case of each step is kept short.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from typing import Any, Protocol

import msgspec

from ethogram.trace import (
    KINDS,
    STATUSES,
    TOKEN_FIELDS,
    EpisodeId,
    File,
    Head,
    Label,
    LabelSource,
    Message,
    Missing,
    Origin,
    Outcome,
    Param,
    Part,
    Reasoning,
    Ref,
    Span,
    SpanId,
    Status,
    Text,
    ToolCall,
    ToolResult,
    TraceId,
    pack_message,
    text_ref,
)
from ethogram.trace.codec import check

from .draft import Draft, TraceSink, without_surrogates

MAX_NS = 7_258_118_400_000_000_000  # the year 2200: later times are damage, not data
MAX_COUNT = 1 << 53
REMEMBERED_CHARS = 4 << 20
_NO_COUNTS = (None,) * len(TOKEN_FIELDS)
REMEMBERED_TALKS = 4  # conversations that take turns in one lane


class TraceHost(Protocol):
    """What a builder needs of the intake that opened it."""

    origin: Origin

    def open_sink(self, trace: TraceId) -> TraceSink:
        """Where the spans of a new trace go."""
        ...

    def lose(self, field: str, count: int = 1) -> None:
        """Report what could not be represented."""
        ...

    def record(self, where: str) -> AbstractContextManager[None]:
        """One foreign record: what is wrong with its shape is reported."""
        ...

    def settle(self, head: Head, labels: Sequence[Label], spans: int) -> Head | None:
        """The final head of a trace, or None if it must not be kept."""
        ...

    def finished(self, spans: int) -> None:
        """A trace with this number of spans was kept."""
        ...


class TraceBuilder:
    """Collects one trace. Set `task`, `attempt`, `outcome`, … at any time before it closes."""

    def __init__(self, intake: TraceHost, trace: TraceId, episode: EpisodeId) -> None:
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
        self._ids: defaultdict[str, int] = defaultdict(int)
        self._names = _Names(self._clean)
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
        names, is_model = self._names, draft.kind == "model"
        span_id = self._new_id(draft.span_id)
        continues, keep, fresh, whole = self._context(draft)
        output = tuple([self._message(m, "output") for m in draft.output])
        if is_model:
            whole.extend(output)
            talks = self._talk.setdefault(draft.lane, [])
            talks.append((span_id, whole))
            del talks[:-REMEMBERED_TALKS]
        start, end = self._times(draft)
        seq = self._small(draft.seq, "seq")
        tokens = self._tokens(draft)
        span = Span(
            trace_id=self.trace_id,
            span_id=span_id,
            seq=self.spans if seq is None else seq,
            kind=draft.kind if draft.kind in KINDS else "other",
            name=names[draft.name] or "",
            parent_id=SpanId(names[draft.parent_id] or "") if draft.parent_id else None,
            agent=names[draft.agent] or "",
            lane=names[draft.lane] or "",
            start_ns=start,
            end_ns=end,
            status=self._status(draft),
            error=self._text(draft.error, "error"),
            model=names[draft.model],
            provider=names[draft.provider],
            prompt_version=names[draft.prompt_version],
            params=self._params(draft.params) if draft.params else {},
            continues=continues,
            keep=keep,
            input=fresh,
            output=output,
            requested=tuple([names[p.name] or "" for m in draft.output for p in m.parts if isinstance(p, ToolCall)]),
            tool=names[draft.tool],
            call_id=names[draft.call_id],
            arguments=self._text(draft.arguments, "arguments"),
            result=self._text(draft.result, "result"),
            truncated=draft.truncated,
            cost_usd=self._money(draft.cost_usd),
            stop_reason=names[draft.stop_reason],
            attributes=self._text(json_text(draft.attributes), "attributes") if draft.attributes else None,
            **tokens,
        )
        self.spans += 1
        if is_model:
            self._used[0] += sum([tokens.get(f) or 0 for f in TOKEN_FIELDS[:4]]) if tokens else 0
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
        settled = self._intake.settle(head, self._labels, self.spans)
        if settled is None:
            self._sink.abort()
            return
        self._sink.finish(settled, self._labels)
        self._intake.finished(self.spans)

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
            return SpanId(unlike(span_id, self._ids))
        self._ids[span_id] = 1
        return SpanId(span_id)

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
            plain = without_surrogates(value)
            redacted = self._sink.clean(plain, field) if plain else plain
            if redacted != value:
                before[redacted] = plain
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

    def _tokens(self, draft: Draft) -> dict[str, Any]:
        counts = (
            draft.input_tokens,
            draft.cache_read_tokens,
            draft.cache_write_tokens,
            draft.output_tokens,
            draft.reasoning_tokens,
        )
        if counts == _NO_COUNTS:
            return {}
        return {f: self._count(v, f) for f, v in zip(TOKEN_FIELDS, counts, strict=True) if v is not None}

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
                kept[name] = self._fact(name, value if isinstance(value, str) else json_text(value))
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


class _Names(dict[str | None, str | None]):
    """Names as they are stored, None for none. Names without a secret are remembered, since spans repeat them."""

    def __init__(self, clean: Callable[[str, str], str]) -> None:
        """`clean` redacts a value under the policy of its field."""
        super().__init__({None: None, "": None})
        self._clean = clean

    def __missing__(self, value: str) -> str | None:
        redacted = self._clean(value, "name")
        if redacted == value:
            self[value] = value
        return redacted or None


def unlike(wanted: str, taken: defaultdict[str, int]) -> str:
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
    if refs[: len(before)] == before:
        return len(before)
    for i, (known, ref) in enumerate(zip(before, refs, strict=False)):
        if known != ref:
            return i
    return min(len(before), len(refs))


_encoder = msgspec.json.Encoder(enc_hook=str, order="sorted")


def json_text(value: Any) -> str:
    """A foreign value as JSON text; what JSON cannot say becomes its printed form."""
    try:
        return _encoder.encode(value).decode()
    except UnicodeEncodeError:
        return _encoder.encode(_all_printable(value)).decode()


def _all_printable(value: Any) -> Any:
    if isinstance(value, str):
        return without_surrogates(value)
    if isinstance(value, dict):
        return {_all_printable(k): _all_printable(v) for k, v in value.items()}
    return [_all_printable(v) for v in value] if isinstance(value, list | tuple) else value


def _clean_message(message: Message, clean: Callable[[str], str]) -> Message:
    """The message with every string in it redacted; the structure stays."""
    parts = tuple([_clean_part(part, clean) for part in message.parts])
    name = clean(message.name) if message.name else None
    return message if name == message.name and parts == message.parts else Message(message.role, parts, name)


def _clean_part(part: Part, clean: Callable[[str], str]) -> Part:
    """The part itself where there is nothing to redact in it."""
    match part:
        case Text() | Reasoning():
            words = clean(part.text)
            return part if words == part.text else type(part)(words)
        case ToolResult():
            content, name, call_id = clean(part.content), _maybe(part.name, clean), _maybe(part.call_id, clean)
            same = content == part.content and name == part.name and call_id == part.call_id
            return part if same else ToolResult(content, name, call_id, part.failed)
        case ToolCall():
            called, arguments, call_id = clean(part.name), clean(part.arguments), _maybe(part.call_id, clean)
            same = called == part.name and arguments == part.arguments and call_id == part.call_id
            return part if same else ToolCall(called, arguments, call_id)
        case File():  # its digest has no words
            return msgspec.structs.replace(part, media_type=clean(part.media_type), uri=clean(part.uri))


def _maybe(value: str | None, clean: Callable[[str], str]) -> str | None:
    return None if value is None else clean(value)
