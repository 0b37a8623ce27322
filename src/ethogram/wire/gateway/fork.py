"""A fork: recorded answers up to one step of a trace, one change there, and live calls from then on.

The policy sees to it that everything before the change is as it was recorded: each request, that of the step itself
included, must be the recorded one. After that, calls are live, and the change stays in force.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, get_args

import msgspec

from ethogram.capture.pairing import AnsweredCall, answered_calls
from ethogram.capture.parse import from_json
from ethogram.errors import BadUsage
from ethogram.store.redact import Redactor
from ethogram.traces import (
    Message,
    Part,
    Span,
    Text,
    ToolCall,
    ToolResult,
    Trace,
    arguments_value,
    digest,
    is_marked,
    short_id,
)

from .call import Decision, Forward, ModelReply, ModelRequest, RequestEdits, Serve
from .playback import Playback
from .recorded_calls import RecordedModelCall, recorded_calls

Changed = Literal["prompt", "model", "result", "answer"]
CHANGES: tuple[str, ...] = get_args(Changed)


class ForkChange(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The one thing that is changed.

    `prompt` and `model` hold from the step on, for calls that had the prompt or the model of the step; `result` is what
    the model is told that the tool of the step gave; `answer` is what the model is made to say there.
    """

    what: Changed
    text: str = ""
    answer: Message | None = None

    def __str__(self) -> str:
        """In words, for a screen."""
        words = self.text if self.answer is None else _shown(self.answer)
        return f"{self.what} = {words if len(words) <= 60 else words[:59] + '…'}"


def parse_change(what: str, words: str) -> ForkChange:
    """A change from its name and its words; an answer may be text, or JSON of a message with tool calls.

    Raises `BadUsage` for a name that is none, and for an answer that is JSON but no message.
    """
    match what:
        case "answer":
            return ForkChange(what=what, answer=_message(words))
        case "prompt" | "model" | "result":
            if what == "model" and not words.strip():
                raise BadUsage("--set model= needs the name of a model")
            return ForkChange(what=what, text=words)
    raise BadUsage(f"{what!r} cannot be changed; give --set with one of {', '.join(f'{c}=…' for c in CHANGES)}")


def taken_change(trace: Trace, at: int) -> ForkChange:
    """What another trace has at a step, as a change: what its model said there, or what its tool gave.

    Raises `BadUsage` where there is no such step, where it has no words, or where some of them were redacted.
    """
    steps = trace.steps
    if not 0 <= at < len(steps):
        raise BadUsage(f"the trace has no step {at}; its steps are 0 to {len(steps) - 1}")
    span = steps[at]
    if span.kind == "tool" and span.result is not None:
        change = ForkChange(what="result", text=trace.text(span.result))
        words = change.text
    else:
        parts = tuple(p for ref in span.output for p in trace.message(ref).parts if isinstance(p, Text | ToolCall))
        if span.kind != "model" or not parts:
            raise BadUsage(f"step {at} is a {span.kind} step without words or calls of a model; name another one")
        change = ForkChange(what="answer", answer=Message("assistant", parts))
        words = "\n".join(p.text if isinstance(p, Text) else p.arguments for p in parts)
    if is_marked(words):
        raise BadUsage(f"words of step {at} were redacted, so they cannot be given again; name another trace")
    return change


def fork_step(trace: Trace, at: int, change: ForkChange | None) -> int:
    """The model step at which calls go live: `at` itself, or the next one where `at` is another step.

    Raises `BadUsage` where the trace has no such step, or the change is none of what happened there.
    """
    steps = trace.steps
    if not 0 <= at < len(steps):
        last = len(steps) - 1
        raise BadUsage(f"the trace has no step {at}; its steps are 0 to {last}" if steps else "the trace has no steps")
    kind = steps[at].kind
    if change is not None and change.what == "answer" and kind != "model":
        raise BadUsage(f"step {at} is a {kind} step, so there is no answer to replace; name a model step with --at")
    if change is not None and change.what == "result" and kind != "tool":
        raise BadUsage(f"step {at} is a {kind} step, so there is no tool result to replace; name a tool step with --at")
    calls = recorded_calls(trace)
    if not any(call.expected for call in calls):
        raise BadUsage(
            "no model call of the trace passed the gateway, so none can be answered again; record the agent with: "
            "ethogram run SUITE --agent A --capture gateway"
        )
    found = next((call for call in calls if call.step >= at and call.expected), None)
    if found is None:
        raise BadUsage(f"no model call of the agent comes at step {at} or later, so nothing could continue from there")
    if kind == "model" and found.step != at:
        raise BadUsage(
            f"step {at} is a model call of a tool or of the simulated user, or it did not pass the gateway; fork at a "
            f"call of the agent, such as step {found.step}"
        )
    return found.step


class ForkPolicy:
    """Decides about the calls of one continuation: recorded before the step, changed at it, live after it."""

    def __init__(
        self,
        trace: Trace,
        redactor: Redactor,
        at: int,
        change: ForkChange | None,
        *,
        keep_answer: bool = False,
        seed: int | None = None,
        on_live: Callable[[], None] | None = None,
    ) -> None:
        """`keep_answer` gives the recorded answer of the step: what a changed answer is compared with.

        `seed` replaces that of live requests which have one, `on_live` is called before the first live call. Raises as
        `Playback` does, and `BadUsage` as `fork_step` does.
        """
        self.step = fork_step(trace, at, change)
        self.playback = Playback(trace, redactor, "strict", until=self.step)
        self.live = False
        self._change = change
        self._seed = seed
        self._on_live = on_live or (lambda: None)
        call = next(c for c in recorded_calls(trace) if c.step == self.step)
        self._reply = _fixed_reply(call, change, keep_answer)
        self._place = _result_place(trace, at, call) if change is not None and change.what == "result" else None
        self._told: ToolResult | None = None
        self._before: tuple[str | None, str] = (None, "")

    def decide(self, request: ModelRequest) -> Decision | None:
        """What the trace says before the step, the change at it, and live calls with the change after it."""
        decision = self.playback.decide(request)
        if decision is not None:
            return decision
        if not self.live and self.playback.live:
            self.live = True
            self._before = request.model, _system(request)
            if self._place is not None:
                self._told = list(answered_calls(request.messages))[self._place].result
            self._on_live()
            if self._reply is not None:
                return Serve(reply=self._reply, note=f"fork: the answer of step {self.step} was set")
        return self._forward(request)

    def done(self, request: ModelRequest, reply: ModelReply | None) -> None:
        """Nothing to do."""

    def _forward(self, request: ModelRequest) -> Forward:
        edits = self._edits(request)
        seed = self._seed if "seed" in request.params else None
        if seed is not None:
            edits = msgspec.structs.replace(edits or RequestEdits(), seed=seed)
        note = f"fork: {self._change.what} changed" if edits is not None and self._change is not None else ""
        return Forward(edits=edits, note=note)

    def _edits(self, request: ModelRequest) -> RequestEdits | None:
        change, (model, system) = self._change, self._before
        if change is None or not self.live:
            return None
        if change.what == "prompt" and _system(request) == system:
            return RequestEdits(system=change.text)
        if change.what == "model" and request.model == model:
            return RequestEdits(model=change.text)
        if change.what == "result" and self._told is not None:
            places = [one.place for one in answered_calls(request.messages) if one.result == self._told]
            return RequestEdits(texts=dict.fromkeys(places, change.text)) if places else None
        return None


def _fixed_reply(call: RecordedModelCall, change: ForkChange | None, keep: bool) -> ModelReply | None:
    """The answer that is given at the step without asking a model."""
    if change is not None and change.answer is not None:
        return ModelReply(message=change.answer, model=call.reply.model)
    if not keep:
        return None
    if call.failed is not None or call.problem is not None:
        why = call.problem or f"the call failed: {call.failed}"
        raise BadUsage(f"the recorded answer of step {call.step} cannot be given again ({why}); fork at another step")
    return call.reply


def _system(request: ModelRequest) -> str:
    return "\n".join(m.text for m in request.messages if m.role == "system")


def _result_place(trace: Trace, at: int, call: RecordedModelCall) -> int:
    """Which of the tool results in a recorded request is that of a tool step, counted from its start."""
    steps = trace.steps
    messages = [trace.message(ref) for ref in trace.input_refs(call.span)]
    wanted = _call_of(trace, steps[at])
    alike = [i for i, answered in enumerate(answered_calls(messages)) if _same_call(answered, wanted)]
    # the same call may have been made again and again: the last of them are those since the model spoke last
    later = sum(_call_of(trace, s) == wanted for s in steps[at + 1 : call.step] if s.kind == "tool")
    if len(alike) <= later:
        raise BadUsage(
            f"the result of step {at} ({wanted[0]}) is not in the request of step {call.step}, so it cannot be "
            "replaced there; fork at another step"
        )
    return alike[len(alike) - 1 - later]


def _call_of(trace: Trace, span: Span) -> tuple[str, Any]:
    arguments = trace.text(span.arguments) if span.arguments is not None else "{}"
    return span.tool or span.name, arguments_value(arguments)


def _same_call(answered: AnsweredCall, wanted: tuple[str, Any]) -> bool:
    if answered.call is None:
        return answered.result.name == wanted[0]
    return (answered.call.name, arguments_value(answered.call.arguments)) == wanted


def _message(words: str) -> Message:
    """An answer: text as it is; JSON with `parts` as traces have it, or with `content` and `tool_calls` as APIs do."""
    value = from_json(words) if words.lstrip().startswith("{") else None
    if not isinstance(value, dict):
        return Message("assistant", (Text(words),))
    try:
        parts = msgspec.convert(value["parts"], tuple[Part, ...]) if "parts" in value else tuple(_parts(value))
    except (msgspec.ValidationError, KeyError, TypeError, AttributeError) as error:
        raise BadUsage(
            f"--set answer= is JSON but no message ({error}); write for example "
            '{"content": "…", "tool_calls": [{"name": "search", "arguments": {"q": "…"}}]}'
        ) from None
    if not parts:
        raise BadUsage("--set answer= is a message without words and without tool calls")
    return Message("assistant", tuple(_with_id(i, part) for i, part in enumerate(parts)))


def _parts(value: dict[str, Any]) -> list[Part]:
    content = value.get("content")
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) and content else content or []
    parts: list[Part] = []
    for block in blocks:
        if block["type"] == "text":
            parts.append(Text(str(block["text"])))
        elif block["type"] == "tool_use":
            parts.append(ToolCall(str(block["name"]), _arguments(block.get("input")), block.get("id")))
        else:
            raise TypeError(f"parts of type {block['type']!r} cannot be set")
    for call in value.get("tool_calls") or []:
        named = call.get("function", call)
        parts.append(ToolCall(str(named["name"]), _arguments(named.get("arguments")), call.get("id")))
    return parts


def _arguments(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value if value is not None else {}).decode()


def _with_id(position: int, part: Part) -> Part:
    """Clients send the id of a call back with its result, so there must be one."""
    if not isinstance(part, ToolCall) or part.call_id:
        return part
    made = short_id(digest("fork", str(position), part.name, part.arguments), 24)
    return ToolCall(part.name, part.arguments, f"call_{made}")


def _shown(message: Message) -> str:
    calls = [f"{c.name}({c.arguments})" for c in message.tool_calls]
    return " ".join(filter(None, [message.text, *calls]))
