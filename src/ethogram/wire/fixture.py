"""Recorded observations as a file of a suite: what tools gave in some traces, to answer the same calls again.

    {"schema_version": 1, "traces": ["b2:…"],
     "calls": [{"tool": "price", "arguments": {"item": "tea"}, "result": "6"}]}

A call is found by its tool and its arguments. The same call made again gets the next recorded answer, after the last
one the last again. People may edit the file: it is part of what a task asks, under the suite's digest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from threading import Lock
from typing import Any

import msgspec

from ethogram.capture.parse import as_dict, as_text, from_json, to_json
from ethogram.display.shorten import shortened_list
from ethogram.errors import BadInput
from ethogram.traces import SpanId, Trace, canonical_json
from ethogram.wire.gateway.episode_replay import recorded_result
from ethogram.wire.gateway.recorded_tools import RecordedCall, RecordedTools
from ethogram.wire.mcp.results import FACTS
from ethogram.wire.recorder import RETURNED, SEEN

MOST_BYTES = 64 << 20


class FixtureCall(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One call of a tool and what it gave: `result`, or `error` where it failed."""

    tool: str
    arguments: dict[str, Any] = {}
    result: Any = None
    error: str | None = None
    mcp: dict[str, Any] | None = None
    """What MCP says beside the words of the result, where the tool was called over it."""


class Fixture(msgspec.Struct, frozen=True, kw_only=True):
    """The observations of some traces; `traces` are those that they come from."""

    schema_version: int = 1
    traces: list[str] = []
    calls: list[FixtureCall] = []

    @property
    def tools(self) -> list[str]:
        """Names of the tools that it answers for."""
        return list(dict.fromkeys(call.tool for call in self.calls))


class UnrecordedCall(Exception):
    """A tool was called in a way that no recorded trace has."""


def fixture_of(traces: Iterable[Trace]) -> tuple[Fixture, list[str]]:
    """The observations of some traces, and what could not be taken from them, in words.

    Calls that an earlier trace has already are left out of a later one.
    """
    calls: list[FixtureCall] = []
    lost: list[str] = []
    names: list[str] = []
    for trace in traces:
        names.append(trace.head.trace_id)
        known = {_key(call.tool, call.arguments) for call in calls}
        for call in RecordedTools(trace).calls:
            arguments = from_json(call.arguments)
            if call.unusable or not isinstance(arguments, dict):
                lost.append(f"{call.name} (call {call.number}): {call.unusable or 'its arguments are not a mapping'}")
            elif SEEN in call.attributes:
                lost.append(f"{call.name} (call {call.number}): a tool of the agent's own, which it runs again")
            elif _key(call.name, arguments) not in known:
                calls.append(_fixture_call(call, arguments))
    return Fixture(traces=names, calls=calls), lost


def _fixture_call(call: RecordedCall, arguments: dict[str, Any]) -> FixtureCall:
    mcp = as_dict(call.attributes.get(FACTS)) or None
    if call.failed and call.result is None:
        return FixtureCall(tool=call.name, arguments=arguments, error=call.error or "failed", mcp=mcp)
    is_json = call.attributes.get(RETURNED) == "json"
    result = from_json(call.result) if is_json and call.result else call.result
    return FixtureCall(tool=call.name, arguments=arguments, result=result, mcp=mcp)


def read_fixture(data: bytes, where: str) -> Fixture:
    """A fixture from the bytes of its file; raises `BadInput` that says what is wrong with it."""
    if len(data) > MOST_BYTES:
        raise BadInput(f"{where} has more than {MOST_BYTES >> 20} MB of observations", where=where)
    try:
        return msgspec.json.decode(data, type=Fixture)
    except msgspec.MsgspecError as error:
        raise BadInput(f"{where} is not a fixture: {error}", where=where) from None


class FixturePlayer:
    """Answers the tools of one episode from a fixture. May be used from several threads."""

    def __init__(self, fixture: Fixture) -> None:
        """Nothing was answered yet."""
        self._answers: dict[tuple[str, str], list[FixtureCall]] = {}
        for call in fixture.calls:
            self._answers.setdefault(_key(call.tool, call.arguments), []).append(call)
        self._given: dict[tuple[str, str], int] = {}
        self._lock = Lock()
        self.tools = fixture.tools
        self.served = 0
        self.unrecorded: str | None = None

    def call(self, name: str, arguments: Mapping[str, Any]) -> Any:
        """What the tool gave, or its error again; raises `UnrecordedCall` where no trace has this call."""
        found = self._take(name, arguments)
        if found is None:
            raise UnrecordedCall(self.unrecorded)
        return found.result if found.error is None else recorded_result(_as_recorded(found))

    def answer(self, name: str, arguments: Mapping[str, Any]) -> RecordedCall | None:
        """The recorded call that answers one over MCP, or None where no trace has it."""
        found = self._take(name, arguments)
        return None if found is None else _as_recorded(found)

    def difference(self, name: str, arguments: Mapping[str, Any]) -> str:
        """Why a call has no answer."""
        near = [key[1] for key in self._answers if key[0] == name]
        if not near:
            return f"the fixture has no call of {name}; it has calls of {shortened_list(self.tools, 5) or 'no tool'}"
        return f"the fixture has no call of {name} with {_key(name, arguments)[1]}; it has {shortened_list(near, 5)}"

    def _take(self, name: str, arguments: Mapping[str, Any]) -> FixtureCall | None:
        key = _key(name, arguments)
        with self._lock:
            known = self._answers.get(key)
            if known is None:
                self.unrecorded = self.unrecorded or self.difference(name, arguments)
                return None
            number = self._given.get(key, 0)
            self._given[key] = number + 1
            self.served += 1
        return known[min(number, len(known) - 1)]


def _as_recorded(call: FixtureCall) -> RecordedCall:
    """A call of a fixture as a trace has it."""
    return RecordedCall(
        number=1,
        span_id=SpanId(""),
        name=call.tool,
        arguments=to_json(call.arguments),
        result=None if call.error is not None else as_text(call.result),
        error=call.error,
        failed=call.error is not None,
        attributes={FACTS: call.mcp} if call.mcp else {},
    )


def _key(tool: str, arguments: Mapping[str, Any]) -> tuple[str, str]:
    return tool, canonical_json(to_json(dict(arguments)))
