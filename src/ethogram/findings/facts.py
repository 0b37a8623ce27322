"""Facts that logs keep for the detectors: the expected calls of benchmarks, and tools that change the world.

tau-bench and tau2 keep the task with its `actions` in the meta values of a trace; AgentDojo and its relatives may keep
a ground truth there. The head keeps them redacted, as the calls themselves are, so that the two can be compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from ethogram.checks.settings import ExpectedCall, ToolCallsCheck, expected_calls
from ethogram.traces import Ref, Trace, is_marked

from .finding import Facts
from .step_words import decoded_or_none

_UNORDERED = {"tau-bench": ["item_ids", "new_item_ids"], "tau2": ["item_ids", "new_item_ids"]}
"""Arguments whose order does not matter to the benchmark: its shop sorts the items of an order before it keeps them."""
_REFERENCE = ("expected_actions", "expected_calls", "ground_truth_calls", "ground_truth", "evaluation.expected_calls")
_OFFERED_ELSEWHERE = frozenset(("functions", "mcp_servers", "prompt"))
"""Parameters of a request that offer tools beside its definitions."""
HOLDS_CALLS = frozenset(("task", "reward_info", *_REFERENCE))
"""Facts of a trace that may hold expected calls: a trace with none of them has no reference."""


def known_facts(
    trace: Trace,
    *,
    expected: Any = None,
    compare: ToolCallsCheck | None = None,
    changing: Iterable[str] | None = None,
    redact: Callable[[str], str] | None = None,
) -> Facts:
    """What is known beside a trace: from its own head, unless the caller knows it from a suite.

    `expected` is a list of expected calls as a suite writes them (names, or names with arguments), with the settings of
    its `tool_calls` check in `compare`; `changing` names the tools that change the world (by default those of `only` in
    that check). The tools that were offered are those that the recorded requests name (`offered_tools`).

    Example: `known_facts(trace).expected` holds the actions that tau-bench expects.
    """
    calls = reference_in(trace) if expected is None else tuple(expected_calls(expected))
    only = compare.only if compare is not None else []
    known = Facts(
        expected=calls,
        changing=frozenset(changing) if changing is not None else frozenset(only) if only else None,
        reads_count=expected is not None,
        offered=offered_tools(trace),
        redact=redact,
    )
    if compare is None:
        origin = trace.head.origin
        unordered = _UNORDERED.get(origin.format if origin else "", [])
        compare = ToolCallsCheck(mode="unordered", unordered_lists=unordered)
    return msgspec.structs.replace(known, compare=compare)


def offered_tools(trace: Trace) -> frozenset[str]:
    """The tools that requests offered to the models of a trace; empty where the record does not name all of them.

    Requests that passed the gateway hold them. Nothing is known of a trace with a reply whose request was not kept,
    that asks for a tool although its request offered none, or whose request offered tools without their names, as
    those of a remote server.
    """
    if all(s.kind != "tool" for s in trace.steps):
        return frozenset()
    replies = [s for s in trace.steps if s.kind == "model" and s.output]
    if any(s.attributes is None or _OFFERED_ELSEWHERE & s.params.keys() for s in replies):
        return frozenset()
    held: dict[Ref | None, frozenset[str] | None] = {}
    for span in replies:
        if span.attributes not in held:
            held[span.attributes] = _tool_names(trace.facts(span))
        names = held[span.attributes]
        if names is None or (not names and any(trace.message(ref).tool_calls for ref in span.output)):
            return frozenset()
    return frozenset().union(*(names for names in held.values() if names))


def _tool_names(request: dict[str, Any] | None) -> frozenset[str] | None:
    """The names of the tools in what was kept of a request; None where they are not all known."""
    tools = (request or {}).get("tools", [] if request and "wire" in request else None)
    if not isinstance(tools, list):
        return None
    names = [_tool_name(tool) for tool in tools]
    known = frozenset(name for name in names if name is not None)
    return known if None not in names else None


def _tool_name(tool: Any) -> str | None:
    """The name of a tool, as any of the protocols of the gateway spells it."""
    if not isinstance(tool, dict):
        return None
    kind = tool.get("type")
    inner = tool.get(kind, tool) if kind in ("function", "custom") else tool
    name = inner.get("name") if isinstance(inner, dict) else None
    return name if isinstance(name, str) and name and not is_marked(name) else None


def reference_in(trace: Trace) -> tuple[ExpectedCall, ...] | None:
    """The expected calls that a log keeps with its trace; None where it keeps none."""
    meta = trace.head.meta
    task = decoded_or_none(meta.get("task"))
    if isinstance(task, dict):
        listed = task.get("actions", (task.get("evaluation_criteria") or {}).get("actions"))
        if isinstance(listed, list):
            return _calls(listed)
    checked = decoded_or_none(meta.get("reward_info"))
    if isinstance(checked, dict) and isinstance(checked.get("action_checks"), list):
        return _calls([c["action"] for c in checked["action_checks"] if isinstance(c, dict) and "action" in c])
    for name in _REFERENCE:
        listed = decoded_or_none(meta.get(name))
        if isinstance(listed, list) and all(isinstance(x, dict | str) for x in listed):
            return _calls(listed)
    return None


def _calls(listed: list[Any]) -> tuple[ExpectedCall, ...]:
    """Calls as the benchmarks write them: `{name, kwargs}`, `{name, arguments}`, `{function, args}`, or a name."""
    found = []
    for item in listed:
        if isinstance(item, str):
            found.append(ExpectedCall(item))
            continue
        name = item.get("name") or item.get("function") if isinstance(item, dict) else None
        if isinstance(name, str):
            arguments = next(
                (item[k] for k in ("kwargs", "arguments", "args") if item.get(k) is not None), msgspec.UNSET
            )
            compared = item.get("compare_args")
            if isinstance(arguments, dict) and isinstance(compared, list):  # tau2 may compare some arguments only
                arguments = {k: v if k in compared else {"$any": True} for k, v in arguments.items()}
            found.append(ExpectedCall(name, arguments))
    return tuple(found)
