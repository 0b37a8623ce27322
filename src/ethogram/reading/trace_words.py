"""The texts of the steps of a trace: new input, requested calls, output, and errors.

Every text stands at one step: where a model reads again what an earlier step wrote, the part only names that step.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Literal, get_args

import msgspec

from ethogram.errors import BadUsage, NotFound
from ethogram.traces import File, Message, Reasoning, Ref, Span, ToolCall, ToolResult, Trace

PartKind = Literal["read", "input", "message", "reasoning", "call", "arguments", "result", "error", "file"]
"""What a part of a step is; `read` and `input` went in, the others came out."""
Only = Literal["errors", "tools", "model"]
TOOL_KINDS = frozenset({"tool", "retrieval", "memory"})


class WordsPart(msgspec.Struct, frozen=True, kw_only=True):
    """One text of a step. `name` is the role of a message or the tool of a call; a part of kind `read` has no text of
    its own: step `step` wrote it."""

    kind: PartKind
    text: str = ""
    name: str = ""
    step: int | None = None


class TextSearch(msgspec.Struct, frozen=True, kw_only=True):
    """What a search found: in `steps` of `of` steps, `times` in all; `at` are their positions."""

    text: str
    steps: int
    of: int
    times: int
    at: list[int]


class StepChoice(msgspec.Struct, frozen=True, kw_only=True):
    """Which steps of a trace to read: one of them and its neighbours, those that hold a text, those of a kind."""

    step: int | None = None
    around: int = 0
    find: str | None = None
    only: Only | None = None
    whole: bool = False

    @property
    def wants_words(self) -> bool:
        """Whether words are asked for, not only the tree."""
        return self.step is not None or self.find is not None or self.whole


def step_choice(step: int | None, around: int, find: str | None, only: str | None, whole: bool) -> StepChoice:
    """What was asked for, checked; raises `BadUsage` for what makes no sense."""
    kinds = get_args(Only)
    kind = next((k for k in kinds if k == only), None)
    if only is not None and kind is None:
        raise BadUsage(f"there is no choice {only!r}; --only takes: {', '.join(kinds)}")
    if around and step is None:
        raise BadUsage("--around says how many neighbours of a step to show; name the step with --step")
    if around < 0:
        raise BadUsage(f"--around is a number of neighbours, not {around}")
    if find is not None and not find.strip():
        raise BadUsage("--find needs a text to look for")
    return StepChoice(step=step, around=around, find=find, only=kind, whole=whole)


def chosen_kind(span: Span, only: Only | None) -> bool:
    """Whether a span is of the chosen kind."""
    if only == "errors":
        return span.status == "error"
    if only == "tools":
        return span.kind in TOOL_KINDS
    return only is None or span.kind == "model"


def chosen_steps(trace: Trace, choice: StepChoice) -> tuple[list[int], TextSearch | None]:
    """The positions of the steps to read, and what a search found; raises `NotFound` for a step that is not there."""
    count = len(trace.steps)
    if choice.step is not None and not 0 <= choice.step < count:
        has = f"steps 0 to {count - 1}" if count else "no steps"
        raise NotFound(
            f"trace {trace.head.trace_id} has no step {choice.step}; it has {has}",
            where=f"trace {trace.head.trace_id}",
            what="step",
            name=str(choice.step),
        )
    near = range(count)
    if choice.step is not None:
        near = range(max(choice.step - choice.around, 0), min(choice.step + choice.around + 1, count))
    at = [i for i in near if i == choice.step or chosen_kind(trace.steps[i], choice.only)]
    if choice.find is None:
        return at, None
    words = StepReader(trace)
    times = {i: n for i in at if (n := words_in(choice.find, words.parts(i)))}
    found = TextSearch(text=choice.find, steps=len(times), of=len(at), times=sum(times.values()), at=list(times))
    return found.at, found


def words_in(wanted: str, parts: Iterable[WordsPart]) -> int:
    """How often some parts contain a text, ignoring case."""
    low = wanted.casefold()
    return sum(p.text.casefold().count(low) + p.name.casefold().count(low) for p in parts)


class StepReader:
    """Reads the words of steps; knows which step wrote a message first."""

    def __init__(self, trace: Trace) -> None:
        """Nothing is read yet."""
        self.trace = trace
        self._written: dict[Ref, int] = {}
        for i, span in enumerate(trace.steps):
            for ref in span.output:
                self._written.setdefault(ref, i)

    def parts(self, step: int) -> list[WordsPart]:
        """The parts of a step, what went in first."""
        return list(step_parts(self.trace, self.trace.steps[step], step, self._written))


def step_parts(trace: Trace, span: Span, step: int, written: Mapping[Ref, int]) -> Iterator[WordsPart]:
    """The parts of a step, what went in first; `written` says which step wrote a message first."""
    for ref in span.input:
        writer = written.get(ref)
        message = trace.message(ref)
        if writer is not None and writer < step:
            yield WordsPart(kind="read", name=message.role, step=writer)
        else:
            yield from (_as_input(p, message) for p in message_words(message))
    yield from span_words(trace, span)


def span_words(trace: Trace, span: Span) -> Iterator[WordsPart]:
    """The texts of a span itself: the call, its output, its error; not its input."""
    if span.arguments is not None:
        yield WordsPart(kind="arguments", name=span.tool or span.name, text=trace.text(span.arguments))
    error = trace.text(span.error) if span.error is not None else None
    result = trace.text(span.result) if span.result is not None else None
    if result is not None and result != error:
        yield WordsPart(kind="result", name=span.tool or span.name, text=result)
    if result is None and (error is None or span.kind == "model"):
        # a tool's message repeats its result
        for ref in span.output:
            yield from message_words(trace.message(ref))
    if error is not None:
        yield WordsPart(kind="error", text=error)


def message_words(message: Message) -> Iterator[WordsPart]:
    """The parts of a message in its order."""
    for part in message.parts:
        if isinstance(part, ToolCall):
            yield WordsPart(kind="call", name=part.name, text=part.arguments)
        elif isinstance(part, ToolResult):
            yield WordsPart(kind="error" if part.failed else "result", name=part.name or "", text=part.content)
        elif isinstance(part, Reasoning):
            yield WordsPart(kind="reasoning", text=part.text)
        elif isinstance(part, File):
            yield WordsPart(kind="file", text=" ".join(filter(None, (part.media_type, part.uri))))
        else:
            yield WordsPart(kind="message", name=message.role, text=part.text)


def _as_input(part: WordsPart, message: Message) -> WordsPart:
    name = message.role if part.kind == "message" else f"{message.role} {part.kind} {part.name}".rstrip()
    return msgspec.structs.replace(part, kind="input", name=name)
