"""A trace: all that one run of one agent on one task left behind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import msgspec

from .amounts import is_unmetered, seconds_between, tokens_of
from .ids import EpisodeId, Ref, SpanId, TraceId
from .label import Label
from .message import Message, unpack_message
from .outcome import Missing, Outcome
from .signature import signature
from .span import Param, Span
from .steps import Placed, inner_ids, parents, step_order

UNMETERED = "unmetered"
"""Where a live trace keeps the resources of which an unknown amount was used beside its totals, e.g. `tokens,usd`."""

END_STATE = "end_state"
"""Where a live trace keeps the hash of the files that the agent left, taken before the checks looked at them."""

UNSEEN = "unseen"
"""Stands among them where model calls may have been made that nobody recorded, so that no price can fill the gap."""

SILENT = "silent"
"""Stands among them where no model call was seen at all, neither at the gateway nor beside it."""

CUT_OFF = "cut_off"
"""Where a live trace keeps the cap that refused one of its calls, e.g. `cap.tokens`: what it answered may lack that."""

OUTSIDE = "outside_gateway"
"""Where a live trace keeps the hosts that were called beside the gateway."""

OUTCOME_ONLY = "outcome_only"
"""Stands among the facts of an episode of which a table gives the outcome and no trace; its amounts stand beside it."""


class Origin(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """Where a trace came from: the format, the file's name and the hash of its bytes."""

    format: str
    name: str = ""
    digest: str = ""


class Head(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """What is known of a trace without opening it. In a store its words are texts, and `words` says which."""

    trace_id: TraceId
    episode: EpisodeId
    task: str
    attempt: int = 0
    condition: str = ""
    agent: str = ""
    seed: int | None = None
    outcome: Outcome = Missing("unscored")
    answer: Ref | None = None
    start_ns: int | None = None
    end_ns: int | None = None
    meta: dict[str, Param] = {}
    origin: Origin | None = None
    words: dict[str, Ref] = {}

    @property
    def seconds(self) -> float | None:
        """How long the episode took: end minus start, else what the log states under `seconds`; None if unknown."""
        return seconds_between(self.start_ns, self.end_ns, self.meta.get("seconds"))


class Totals(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """Sums over a trace. Calls of tools and errors are counted over its steps, tokens and cost over leaf model spans,
    because parents repeat children; None means that the log never said, which is not zero. Of an episode without a
    trace nobody knows how many steps it took."""

    spans: int = 0
    steps: int | None = 0
    model_calls: int | None = 0
    tool_calls: int | None = 0
    errors: int | None = 0
    input_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    output_tokens: int | None = None
    reasoning_tokens: int | None = None
    cost_usd: float | None = None

    @property
    def tokens(self) -> int | None:
        """All tokens that were counted; None where the log never said."""
        return tokens_of(self)


class Trace:
    """A trace in memory: its head, its spans and the texts they refer to."""

    def __init__(
        self, head: Head, spans: tuple[Span, ...], texts: Mapping[Ref, str], labels: tuple[Label, ...] = ()
    ) -> None:
        """Join the parts; nothing is read or computed yet."""
        self.head = head
        self.spans = spans
        self.texts = texts
        self.labels = labels

    def __repr__(self) -> str:
        return f"Trace({self.head.trace_id}, task={self.head.task!r}, {len(self.spans)} spans)"

    @property
    def outcome(self) -> Outcome:
        """The score, or why there is none."""
        return self.head.outcome

    @cached_property
    def by_id(self) -> dict[SpanId, Span]:
        """Spans by their id."""
        return {s.span_id: s for s in self.spans}

    @cached_property
    def steps(self) -> tuple[Span, ...]:
        """The linear reading: what was done, in order."""
        return tuple(step_order(self.spans))

    @cached_property
    def messages(self) -> tuple[Message, ...]:
        """The reading by messages, for chat logs: every message once, in the order in which it appeared."""
        return tuple(self.message(ref) for ref in message_order(self.spans))

    @cached_property
    def totals(self) -> Totals:
        """Sums over the spans; of an outcome without a trace, what was stated."""
        return stated(self.head) if is_outcome_only(self.head) else total(self.spans)

    @property
    def answer(self) -> str | None:
        """The agent's final answer, where the log has one."""
        return None if self.head.answer is None else self.text(self.head.answer)

    def text(self, ref: Ref) -> str:
        """The body of a text."""
        return self.texts[ref]

    def message(self, ref: Ref) -> Message:
        """The message behind a reference."""
        return unpack_message(self.texts[ref], self.texts.__getitem__)

    def facts(self, span: Span) -> dict[str, Any] | None:
        """The attributes of a span as an object: empty where it has none, None where redaction left no JSON."""
        if span.attributes is None:
            return {}
        try:
            found = msgspec.json.decode(self.text(span.attributes))
        except msgspec.DecodeError:
            return None
        return found if isinstance(found, dict) else {}

    def conversation(self, span: Span) -> tuple[Message, ...]:
        """The full input of a model span, what it continues included."""
        return tuple(self.message(r) for r in self.input_refs(span))

    def input_refs(self, span: Span) -> tuple[Ref, ...]:
        """References of the full input: walks back along `continues`, so it costs its own length."""
        links: list[Span] = [span]
        seen = {span.span_id}
        while (above := links[-1].continues) is not None and above in self.by_id and above not in seen:
            seen.add(above)
            links.append(self.by_id[above])
        refs: list[Ref] = []
        for i in range(len(links) - 1, -1, -1):
            refs.extend(links[i].input)
            if i > 0:
                refs.extend(links[i].output)
                del refs[links[i - 1].keep :]
        return tuple(refs)

    def signatures(self, function: Callable[[Span], str] = signature) -> tuple[str, ...]:
        """The signature of each step."""
        return tuple(function(s) for s in self.steps)

    def children(self) -> dict[SpanId | None, list[Span]]:
        """Spans by parent, in order; spans whose parent is unknown or below them hang at the root (None)."""
        above = parents(self.spans)
        below: dict[SpanId | None, list[Span]] = {}
        for span in self.spans:
            parent = span.parent_id if above[span.span_id] is not None else None
            below.setdefault(parent, []).append(span)
        for group in below.values():
            group.sort(key=lambda s: (s.start_ns is None, s.start_ns or 0, s.seq))
        return below

    def walk(self) -> Iterator[tuple[int, Span]]:
        """Depth and span, parents first; a circle of parents is entered once, at its first span."""
        below = self.children()
        stack = [(0, s) for s in reversed(below.get(None, []))]
        while stack:
            depth, span = stack.pop()
            yield depth, span
            stack.extend((depth + 1, s) for s in reversed(below.get(span.span_id, [])))


def message_order(spans: Iterable[Span]) -> Iterator[Ref]:
    """Each message once, by `seq`: what a user or tool span wrote and a model span then reads is one message."""
    waiting: Counter[Ref] = Counter()
    for span in sorted(spans, key=lambda s: s.seq):
        if span.kind == "model":
            for ref in span.input:
                if waiting[ref] > 0:
                    waiting[ref] -= 1
                else:
                    yield ref
        else:
            waiting.update(span.output)
        yield from span.output


_MODEL = frozenset({"model"})
TOKEN_FIELDS = ("input_tokens", "cache_read_tokens", "cache_write_tokens", "output_tokens", "reasoning_tokens")


def total(
    spans: Iterable[Span], placed: Sequence[Placed] | None = None, steps: Sequence[Placed] | None = None
) -> Totals:
    """Sums over spans, counted once each; a stream of spans needs their places beforehand.

    `steps` is what `step_order` gives, where the caller has it already.
    """
    if placed is None:
        spans = placed = tuple(spans)
    if steps is None:
        steps = step_order(placed)
    if not placed:
        return Totals()
    is_step = {s.span_id for s in steps}
    above_model = inner_ids(placed, _MODEL)
    count = calls = tools = errors = 0
    sums: dict[str, Any] = dict.fromkeys(TOKEN_FIELDS)
    cost: float | None = None
    for span in spans:
        count += 1
        kind, span_id = span.kind, span.span_id
        if span_id in is_step:
            tools += kind == "tool"
            errors += span.status == "error"
        if kind != "model" or span_id in above_model:
            continue
        calls += 1
        for field in TOKEN_FIELDS:
            if (value := getattr(span, field)) is not None:
                sums[field] = (sums[field] or 0) + value
        if span.cost_usd is not None:
            cost = (cost or 0.0) + span.cost_usd
    counts = {"spans": count, "model_calls": calls, "tool_calls": tools, "errors": errors}
    return Totals(steps=len(steps), cost_usd=cost, **counts, **sums)


def metered(head: Head, totals: Totals) -> Totals:
    """The totals without those of which the harness could not count a part: the rest is not the whole."""
    resources = head.meta.get(UNMETERED)
    if not resources:
        return totals
    hidden = {f: None for f in (*TOKEN_FIELDS, "cost_usd") if is_unmetered(resources, f)}
    return msgspec.structs.replace(totals, **hidden)


def is_outcome_only(head: Head) -> bool:
    """Whether only the outcome of an episode is known, so that nothing can be said of its steps."""
    return OUTCOME_ONLY in head.meta


def stated(head: Head) -> Totals:
    """The totals of an episode without a trace: the amounts among its facts; what it did is not known."""
    amounts = {f: head.meta.get(f) for f in (*TOKEN_FIELDS, "cost_usd")}
    return Totals(steps=None, model_calls=None, tool_calls=None, errors=None, **amounts)  # type: ignore[arg-type]
