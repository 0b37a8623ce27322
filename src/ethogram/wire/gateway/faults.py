"""Operators of `perturb` as policies of the gateway, for agents that are not ours.

A model that calls tools reads their results in the next request, and in every later one, for the context is sent
again. `ToolFaults` changes a result there, each time in the same way: the model sees the changed result, while the
tool had its effect and the agent's own code saw what the tool gave. `PromptFaults` changes the first words of the
user, `ModelFaults` the call itself. Which calls are hit follows from a seed, as in `perturb`.
"""

from __future__ import annotations

from typing import NamedTuple

from ethogram.capture.pairing import answered_calls, unseen_call
from ethogram.capture.parse import as_dict, to_json
from ethogram.perturbations.model import ModelFault, ModelOperator
from ethogram.perturbations.operator import NotApplicable, count_of
from ethogram.perturbations.prompt import PromptOperator
from ethogram.perturbations.tools import Call, ToolChange, ToolPerturbation, perturb_tool
from ethogram.traces import Text, ToolCall, ToolResult, is_length_stop

from .call import Decision, Forward, ModelReply, ModelRequest, ProtocolName, Refuse, RequestEdits
from .tool_results import plain_name

_ERROR_KINDS: dict[int, tuple[str, str]] = {
    400: ("context_length_exceeded", "invalid_request_error"),
    429: ("rate_limit_exceeded", "rate_limit_error"),
    500: ("server_error", "api_error"),
    529: ("server_error", "overloaded_error"),
}
"""What OpenAI and Anthropic call the errors of a status."""


class ModelFaults:
    """Calls of a model that go wrong, by their number in the episode."""

    def __init__(self, operator: ModelOperator, seed: int, intensity: float = 1.0) -> None:
        self._operator = operator
        self._seed = seed
        self._intensity = intensity
        self._calls = 0
        self._limits: set[int] = set()
        self.hits = 0
        """Calls that went wrong; a reply that was shorter than its new limit is none of them."""

    def decide(self, request: ModelRequest) -> Decision | None:
        """The trouble of this call, if it is hit."""
        number, self._calls = self._calls, self._calls + 1
        if not self._operator.hits(number, self._seed, self._intensity):
            return None
        fault = self._operator.fault(number, self._seed)
        if fault.at_most_tokens is None:
            self.hits += 1
        else:
            self._limits.add(fault.at_most_tokens)
        return fault_decision(fault, request.protocol)

    def done(self, request: ModelRequest, reply: ModelReply | None) -> None:
        """Count a reply that ended at the limit that was set here."""
        if reply is not None and request.at_most_tokens in self._limits and is_length_stop(reply.stop_reason):
            self.hits += 1


def fault_decision(fault: ModelFault, protocol: ProtocolName) -> Decision:
    """What the gateway does about a call that goes wrong: an error in the words of its API, or a changed reply."""
    if fault.status is None:
        edits = None if fault.at_most_tokens is None else RequestEdits(at_most_tokens=fault.at_most_tokens)
        return Forward(
            edits=edits,
            delay_seconds=fault.delay_seconds,
            cut_after=fault.cut_after,
            note=f"perturbed: {fault.summary}",
        )
    ours, theirs = _ERROR_KINDS.get(fault.status, ("server_error", "api_error"))
    return Refuse(
        status=fault.status,
        kind=theirs if protocol == "anthropic-messages" else ours,
        message=fault.message,
        retry=fault.status >= 429,
        delay_seconds=fault.delay_seconds,
        note=f"perturbed: {fault.summary}",
    )


class _SeenResult(NamedTuple):
    """A result as the tool gave it, and as the model reads it: None where it is left alone."""

    given: str
    shown: str | None


class ToolFaults:
    """Results of tools in the requests of an episode, a share of them changed.

    Calls that came through wrapped tools were changed at their source, so they are left alone here. Calls are numbered
    by tool in the order in which their results appear first, as they are when the tools themselves are wrapped.
    """

    def __init__(self, perturbation: ToolPerturbation) -> None:
        """`perturbation` wraps the suite's tools of the same episode; its operator and seed hold here, and its log."""
        self._source = perturbation
        self._seen: dict[tuple[str | None, str, str, int], _SeenResult] = {}
        self._counts: dict[str, int] = {}
        self._earlier: dict[str, list[tuple[dict[str, object], str]]] = {}

    def decide(self, request: ModelRequest) -> Decision | None:
        """The request with the results that the model is to read."""
        texts: dict[tuple[int, int], str] = {}
        repeats: dict[tuple[str | None, str, str], int] = {}
        for place, asked, result in answered_calls(request.messages):
            call = asked or unseen_call(result)
            if not self._source.changes(call.name) or any(map(self._source.called, (call.name, plain_name(call.name)))):
                continue
            key = (result.call_id, call.name, to_json(as_dict(call.arguments)))
            repeats[key] = repeats.get(key, 0) + 1
            seen = self._seen.get((*key, repeats[key]))
            if seen is None:
                seen = self._seen[(*key, repeats[key])] = self._first_sight(call, result)
            if seen.shown is not None and seen.given == result.content:  # not one that the agent shortened by itself
                texts[place] = seen.shown
        if not texts:
            return None
        note = f"perturbed: {self._source.operator.name} in {count_of(len(texts), 'result')}"
        return Forward(edits=RequestEdits(texts=texts), note=note)

    def done(self, request: ModelRequest, reply: ModelReply | None) -> None:
        """Nothing to remember."""

    def _first_sight(self, asked: ToolCall, result: ToolResult) -> _SeenResult:
        """Decide about a result once; all later requests repeat it."""
        source, arguments = self._source, as_dict(asked.arguments)
        number = self._counts.get(asked.name, 0)
        self._counts[asked.name] = number + 1
        earlier = self._earlier.setdefault(asked.name, [])
        call = Call(asked.name, arguments, number, tuple(earlier))
        earlier.append((arguments, result.content))
        change: ToolChange = perturb_tool(result.content, call, source.operator, source.seed, source.intensity)
        if change.hit or change.why_not:
            source.log.append(change)
        if not change.hit:
            return _SeenResult(result.content, None)
        return _SeenResult(result.content, f"Error: {change.error}" if change.error else str(change.result))


class PromptFaults:
    """The first words of the user, otherwise put; the same words are always put in the same way."""

    def __init__(self, operator: PromptOperator, seed: int, intensity: float = 1.0) -> None:
        self._operator = operator
        self._seed = seed
        self._intensity = intensity
        self._shown: dict[str, str | None] = {}
        self.hits = 0

    def decide(self, request: ModelRequest) -> Decision | None:
        """The request with other words, where the operator has any."""
        place = next(
            (
                (i, j)
                for i, message in enumerate(request.messages)
                for j, part in enumerate(message.parts)
                if message.role == "user" and isinstance(part, Text) and part.text
            ),
            None,
        )
        if place is None:
            return None
        part = request.messages[place[0]].parts[place[1]]
        assert isinstance(part, Text)
        if part.text not in self._shown:
            self._shown[part.text] = self._changed(part.text)
        shown = self._shown[part.text]
        if shown is None:
            return None
        return Forward(edits=RequestEdits(texts={place: shown}), note=f"perturbed: {self._operator.name}")

    def done(self, request: ModelRequest, reply: ModelReply | None) -> None:
        """Nothing to remember."""

    def _changed(self, text: str) -> str | None:
        try:
            changed = self._operator.apply(text, self._seed, self._intensity).text
        except NotApplicable:
            return None
        self.hits += 1
        return changed
