"""The builder of one trace: turns drafts (with words) into spans (with references).

It mends what would break later readers: repeated ids, impossible times, negative counts. Every repair is counted in
`lost`. A log of a million spans passes through here, so the common case of each step is kept short.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from contextlib import AbstractContextManager, suppress
from typing import Any, Protocol

import msgspec

from ethogram.traces import (
    KINDS,
    STATUSES,
    TOKEN_FIELDS,
    EpisodeId,
    Head,
    Label,
    LabelSource,
    Missing,
    Origin,
    Outcome,
    Ref,
    Span,
    SpanId,
    Status,
    ToolCall,
    TraceId,
    cut_whole,
)
from ethogram.traces.codec import check

from .cleaning import clean_params, json_text
from .contexts import Context, Contexts
from .draft import Draft, LabelDraft, PayloadWords, TraceSink, tells_error, without_surrogates
from .held_spans import HeldSpans

MAX_NS = 7_258_118_400_000_000_000  # the year 2200: later times are damage, not data
MAX_COUNT = 1 << 53
_NO_COUNTS = (None,) * len(TOKEN_FIELDS)
_NO_CONTEXT = Context(None, 0, (), [])


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

    def __init__(self, intake: TraceHost, trace: TraceId, episode: EpisodeId, sink: TraceSink | None = None) -> None:
        """Open the sink, unless one is given. Ids derive from the source or the plan, so a log gives the same ones."""
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
        self.model_calls = 0
        self._intake = intake
        self._sink: TraceSink = intake.open_sink(trace) if sink is None else sink
        self._plain = self._sink.idle
        self._labels: list[Label] = []
        self._ids: defaultdict[str, int] = defaultdict(int)
        self._names = _Names(self._sink)
        self._contexts = Contexts(self._sink)
        self._used = [0.0, 0.0]
        self._start: int | None = None
        self._end: int | None = None

    def lose(self, field: str, count: int = 1) -> None:
        """Report what could not be represented."""
        self._intake.lose(field, count)

    def add(self, draft: Draft) -> SpanId:
        """Add a span and give its id (a repeated id gets a suffix)."""
        names, contexts, kind, status = self._names, self._contexts, draft.kind, draft.status
        is_model = kind == "model"
        span_id = self._new_id(draft.span_id)
        continues, keep, fresh, whole = contexts.of(draft) if is_model or draft.input else _NO_CONTEXT
        said: list[Ref] = []
        asked: list[str] = []
        for message in draft.output:
            said.append(contexts.kept(message, "output"))
            for part in message.parts:
                if type(part) is ToolCall:
                    asked.append(names[part.name] or "")
        output = tuple(said)
        if is_model:
            contexts.answered(draft, span_id, whole, output)
        start, end = self._times(draft)
        seq = None if draft.seq is None else self._small(draft.seq, "seq")
        counts = self._counts(draft)
        # by name and one by one: a call with `**` would make a dictionary of all fields for each span
        span = Span(
            trace_id=self.trace_id,
            span_id=span_id,
            seq=self.spans if seq is None else seq,
            kind=kind if kind in KINDS else "other",
            name=names[draft.name] or "",
            parent_id=SpanId(names[draft.parent_id] or "") if draft.parent_id else None,
            agent=names[draft.agent] or "",
            lane=names[draft.lane] or "",
            start_ns=start,
            end_ns=end,
            status="unset" if status == "unset" and draft.error is None and kind != "tool" else self._status(draft),
            error=None if draft.error is None else self._text(draft.error, "error"),
            model=names[draft.model],
            provider=names[draft.provider],
            prompt_version=names[draft.prompt_version],
            params=clean_params(draft.params, self._clean) if draft.params else {},
            continues=continues,
            keep=keep,
            input=fresh,
            output=output,
            requested=tuple(asked),
            tool=names[draft.tool],
            call_id=names[draft.call_id],
            arguments=None if draft.arguments is None else self._text(draft.arguments, "arguments"),
            result=None if draft.result is None else self._text(draft.result, "result"),
            truncated=draft.truncated,
            input_tokens=counts[0],
            cache_read_tokens=counts[1],
            cache_write_tokens=counts[2],
            output_tokens=counts[3],
            reasoning_tokens=counts[4],
            cost_usd=None if draft.cost_usd is None else self._money(draft.cost_usd),
            stop_reason=names[draft.stop_reason],
            attributes=self._text(json_text(draft.attributes), "attributes") if draft.attributes else None,
        )
        self.spans += 1
        if is_model:
            self.model_calls += 1
            self._used[0] += sum([count or 0 for count in counts[:4]])
            self._used[1] += span.cost_usd or 0.0
        self._sink.span(span)
        return span_id

    def lasted(self, start_ns: int, end_ns: int) -> None:
        """The time from when the agent got its task until it had ended, which its spans need not cover."""
        self._start = start_ns if self._start is None else min(self._start, start_ns)
        self._end = end_ns if self._end is None else max(self._end, end_ns)

    def hold(self) -> HeldSpans:
        """Hold back spans that are added from now on until the trace closes, so that they can be amended."""
        self._sink = held = HeldSpans(self._sink)
        return held

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
    ) -> None:
        """Attach a score or a note to the trace, or to one span; a `LabelDraft` has more fields."""
        self.add_label(LabelDraft(name=name, value=value, by=by, source=source, why=why, span_id=span_id))

    def add_label(self, draft: LabelDraft) -> None:
        """Attach a label; one that cannot be stored is listed as skipped."""
        with self._intake.record(f"label {cut_whole(str(draft.name), 80)!r}"):
            self._labels.append(self._label(draft))

    def _label(self, draft: LabelDraft) -> Label:
        value = draft.value
        if isinstance(value, int | float) and not isinstance(value, bool):
            value = self._number(value)
        if isinstance(value, str):
            value = self._clean(value, "label")
        return check(
            Label(
                trace_id=self.trace_id,
                name=self._clean(draft.name, "label"),
                value=value,
                by=self._clean(draft.by, "label"),
                source=draft.source,
                why=None if draft.why is None else self._text(draft.why, "label"),
                span_id=SpanId(self._clean(draft.span_id, "name")) if draft.span_id else None,
                version=self._clean(draft.version, "label"),
                at_ns=self._time(draft.at_ns),
            )
        )

    def close(self) -> None:
        """Commit the trace, unless the import refuses it."""
        head = Head(
            trace_id=self.trace_id,
            episode=self.episode,
            task=self._name(self.task, "task"),
            attempt=self._numbered(),
            condition=self._name(self.condition, "task"),
            agent=self._clean(self.agent, "name"),
            seed=self.seed,
            outcome=self._verdict(self.outcome),
            answer=None if self.answer is None else self._text(self.answer, "answer"),
            start_ns=self._start,
            end_ns=self._end,
            meta=clean_params(self.meta, self._clean),
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
        return "error" if status == "unset" and (draft.error is not None or tells_error(draft)) else status

    def _new_id(self, wanted: str | None) -> SpanId:
        span_id = self._clean(wanted, "name") if wanted else f"s{self.spans}"
        if span_id in self._ids:
            self.lose("span_id (repeated)")
            return SpanId(unlike(span_id, self._ids))
        self._ids[span_id] = 1
        return SpanId(span_id)

    def _text(self, body: str, field: str) -> Ref:
        return self._sink.text(body if body.isascii() else without_surrogates(body), field)

    def _clean(self, value: str | None, field: str) -> str:
        if not value:
            return ""
        if value.isascii():
            return value if self._plain else self._sink.clean(value, field)
        return self._sink.clean(without_surrogates(value), field)

    def _name(self, value: str, field: str) -> str:
        """A name that the log gives, or one that is made of its words."""
        made = value and type(value) is PayloadWords
        return self._sink.named(without_surrogates(str(value))) if made else self._clean(str(value), field)

    def _counts(self, draft: Draft) -> tuple[int | None, ...]:
        """Tokens in the order of `TOKEN_FIELDS`."""
        counts = (
            draft.input_tokens,
            draft.cache_read_tokens,
            draft.cache_write_tokens,
            draft.output_tokens,
            draft.reasoning_tokens,
        )
        if counts == _NO_COUNTS:
            return counts
        return tuple([self._count(v, f) for f, v in zip(TOKEN_FIELDS, counts, strict=True)])

    def _verdict(self, outcome: Outcome) -> Outcome:
        """The outcome with its words redacted: what failed is often told with the secret that it failed on."""
        if isinstance(outcome, Missing):
            return msgspec.structs.replace(outcome, detail=self._clean(outcome.detail, "error"))
        by = self._clean(outcome.by, "label")
        return outcome if by == outcome.by else msgspec.structs.replace(outcome, by=by)

    def _times(self, draft: Draft) -> tuple[int | None, int | None]:
        if draft.start_ns is None and draft.end_ns is None:
            return None, None
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

    def _money(self, value: float) -> float | None:
        if math.isfinite(value) and value >= 0:
            return value
        self.lose("cost_usd (out of range)")
        return None


class _Names(dict[str | None, str | None]):
    """Names as they are stored, None for none. Names without a secret are remembered, since spans repeat them."""

    def __init__(self, sink: TraceSink) -> None:
        """`sink` redacts; a method of the builder would make a circle, which only the garbage collector removes."""
        super().__init__({None: None, "": None})
        self._sink = sink

    def __missing__(self, value: str) -> str | None:
        if self._sink.idle and value.isascii():
            self[value] = value
            return value
        redacted = self._sink.clean(without_surrogates(value), "name")
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
