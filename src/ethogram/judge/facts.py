"""Facts that logs keep for the detectors: the expected calls of benchmarks, and tools that change the world.

tau-bench and tau2 keep the task with its `actions` in the meta values of a trace; AgentDojo and its relatives may keep
a ground truth there. The head keeps them redacted, as the calls themselves are, so that the two can be compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from ethogram.trace import Trace

from .finding import Facts
from .reading import decoded_or_none
from .settings import ExpectedCall, ToolCalls, expected_calls

_UNORDERED = {"tau-bench": ["item_ids", "new_item_ids"], "tau2": ["item_ids", "new_item_ids"]}
"""Arguments whose order does not matter to the benchmark: its shop sorts the items of an order before it keeps them."""
_REFERENCE = ("expected_actions", "expected_calls", "ground_truth_calls", "ground_truth", "evaluation.expected_calls")
HOLDS_CALLS = frozenset(("task", "reward_info", *_REFERENCE))
"""Facts of a trace that may hold expected calls: a trace with none of them has no reference."""


def known_facts(
    trace: Trace,
    *,
    expected: Any = None,
    compare: ToolCalls | None = None,
    changing: Iterable[str] | None = None,
    offered: Iterable[str] = (),
    redact: Callable[[str], str] | None = None,
) -> Facts:
    """What is known beside a trace: from its own head, unless the caller knows it from a suite.

    `expected` is a list of expected calls as a suite writes them (names, or names with arguments), with the settings of
    its `tool_calls` check in `compare`; `changing` names the tools that change the world (by default those of `only` in
    that check), `offered` those that the agent could call.

    Example: `known_facts(trace).expected` holds the actions that tau-bench expects.
    """
    calls = reference_in(trace) if expected is None else tuple(expected_calls(expected))
    only = compare.only if compare is not None else []
    known = Facts(
        expected=calls,
        changing=frozenset(changing) if changing is not None else frozenset(only) if only else None,
        reads_count=expected is not None,
        offered=frozenset(offered),
        redact=redact,
    )
    if compare is None:
        origin = trace.head.origin
        unordered = _UNORDERED.get(origin.format if origin else "", [])
        compare = ToolCalls(mode="unordered", unordered_lists=unordered)
    return msgspec.structs.replace(known, compare=compare)


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
