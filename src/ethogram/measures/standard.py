"""The standard field: dimensions that any stored trace has, measured from columns without building a trace.

Everything is counted over the steps of the linear reading. Tokens, cost and wall time come from the ledger's totals,
which count leaf model spans once. What a log never records has no value here: that dimension is left out with its
reason, never set to zero. Tools are told apart by the words of their names alone (`TOOL_CLASSES`); arguments are
compared by their content hash, never read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np

from ethogram.errors import BadInput, BadUsage, NotFound
from ethogram.plugins import Plugged, plugged
from ethogram.traces import TOKEN_FIELDS, UNMETERED, Head, Totals, TraceId, is_unmetered

from .columns import Floats
from .dimension import Dimension
from .metrics import METRICS, metrics

if TYPE_CHECKING:
    from .standard_columns import StandardValues, StepArrays

GROUP = "ethogram.dimensions"


class StepDimension(msgspec.Struct, frozen=True):
    """One standard dimension: what it is called, what it counts in, and how it is computed.

    `of` takes the steps of some traces and gives one number per trace, NaN where a trace does not record it. Those of
    Ethogram have none: they are counted together, in `standard_columns`.
    """

    name: str
    unit: str
    formula: str
    presets: tuple[str, ...]
    of: Callable[[StepArrays], Floats] | None = None

    @property
    def dimension(self) -> Dimension:
        """The axis of a field."""
        return Dimension(self.name, f"{self.formula} ({self.unit})")


PRESETS: dict[str, str] = {
    "standard": "any agent",
    "coding": "agents that read, edit and test code",
    "service": "agents that talk to a customer and change records",
    "web": "agents that browse pages",
}

_WORDS = {
    "transfer": "transfer_to escalate hand_off handoff human_agent human_agents",
    "read": "get list read view show search find fetch look lookup query check describe browse open cat grep ls glob "
    "inspect retrieve count verify load",
    "write": "write edit create update delete remove add insert set put post patch apply send book cancel modify "
    "change replace move rename append exchange return pay refund upload commit push place order",
    "file_read": "read view cat open show head tail ls tree list goto scroll_down scroll_up",
    "file_edit": "write edit editor create insert patch apply replace append delete rename move undo",
    "search": "search grep find glob rg ripgrep locate query google bing",
    "command": "bash shell sh exec execute terminal command run python ipython powershell",
    "test": "test tests pytest unittest",
    "visit": "goto navigate visit open browse url load_page",
    "click": "click tap press select hover drag",
    "typed": "type fill input keyboard enter_text send_keys upload_file",
    "scroll": "scroll page_down page_up",
    "back": "back previous close_tab",
    "look": "screenshot extract read_page get_page snapshot observe dom html",
}
TOOL_CLASSES: dict[str, tuple[str, ...]] = {name: tuple(words.split()) for name, words in _WORDS.items()}
"""A tool is of a class if its name holds one of these words, or runs of words; of read and write the first decides."""

NOT_A_CHANGE = ("todo", "think", "plan", "memory", "final_answer", "finish")
"""Tools with these words neither read nor change the world: an agent's notes to itself."""

ALL = tuple(PRESETS)


def _metric(name: str) -> StepDimension:
    """A metric of the catalogue as a dimension."""
    kind = METRICS[name]
    return StepDimension(kind.name, kind.unit, kind.formula, ALL)


_ANY, _CODE, _TALK, _WEB = ("standard",), ("coding",), ("service",), ("web",)

DIMENSIONS: tuple[StepDimension, ...] = (
    _metric("steps"),
    StepDimension("model_calls", "steps", "steps of kind model", ALL),
    _metric("tool_calls"),
    StepDimension("distinct_tools", "tools", "different tools called", ALL),
    _metric("errors"),
    StepDimension("reads", "calls", "calls of tools that read, by name", (*_ANY, *_TALK)),
    StepDimension("writes", "calls", "calls of tools that change something, by name", (*_ANY, *_TALK)),
    StepDimension("failed_writes", "calls", "writes that ended in an error", _TALK),
    StepDimension("unconfirmed_writes", "calls", "writes with no user turn since the tool call before", _TALK),
    StepDimension("transfers", "calls", "calls of tools that hand over to a person, by name", _TALK),
    StepDimension("file_reads", "calls", "calls of tools that show files, by name", _CODE),
    StepDimension("file_edits", "calls", "calls of tools that change files, by name", _CODE),
    StepDimension("searches", "calls", "calls of tools that search, by name", (*_CODE, *_WEB)),
    StepDimension("commands", "calls", "calls of a shell or an interpreter, by name", _CODE),
    StepDimension("test_runs", "calls", "calls of tools that run tests, by name (not tests run by a shell)", _CODE),
    StepDimension("looks_before_edit", "calls", "file reads and searches before the first edit, or all of them", _CODE),
    StepDimension("page_visits", "calls", "calls of tools that open a page, by name", _WEB),
    StepDimension("clicks", "calls", "calls of tools that click, by name", _WEB),
    StepDimension("entries", "calls", "calls of tools that type into a page, by name", _WEB),
    StepDimension("scrolls", "calls", "calls of tools that scroll, by name", _WEB),
    StepDimension("returns", "calls", "calls of tools that go back, by name", _WEB),
    StepDimension("page_reads", "calls", "calls of tools that extract or photograph a page, by name", _WEB),
    StepDimension("user_turns", "steps", "steps of kind user", (*_ANY, *_TALK, *_WEB)),
    StepDimension("handoffs", "steps", "steps of kind handoff", (*_ANY, *_TALK)),
    StepDimension("retrievals", "steps", "steps of kind retrieval", (*_ANY, *_TALK, *_WEB)),
    StepDimension("memory_steps", "steps", "steps of kind memory", _ANY),
    StepDimension("error_streak", "steps", "most tool calls in a row, within a lane, that ended in an error", ALL),
    StepDimension("repeats", "calls", "tool calls with the tool and the arguments of an earlier one", ALL),
    StepDimension("backtracks", "calls", "tool calls A after B after A, within a lane", ALL),
    StepDimension("longest_streak", "calls", "most calls of one tool in a row, within a lane", ALL),
    StepDimension(
        "longest_loop", "calls", "longest stretch that repeats a cycle of 1 to 3 equal calls, within a lane", ALL
    ),
    StepDimension("length_stops", "steps", "model steps that stopped at a length limit", ALL),
    StepDimension("ended_on_tool", "0 or 1", "the last step is a tool call", ALL),
    StepDimension("ended_on_error", "0 or 1", "the last step ended in an error", ALL),
    StepDimension("input_tokens", "tokens", "fresh input of leaf model spans", ALL),
    StepDimension("cache_read_tokens", "tokens", "input read from a cache", (*_ANY, *_CODE)),
    StepDimension("cache_write_tokens", "tokens", "input written to a cache", (*_ANY, *_CODE)),
    StepDimension("output_tokens", "tokens", "output, reasoning included", ALL),
    StepDimension("reasoning_tokens", "tokens", "reasoning, a part of output", ALL),
    StepDimension("cost_usd", METRICS["cost"].unit, METRICS["cost"].formula, ALL),
    _metric("seconds"),
    StepDimension("seconds_per_step", "seconds", "seconds / steps", ALL),
    StepDimension("tool_time_share", "share", "seconds in tool steps / seconds in all steps", ALL),
)
"""Ethogram's own standard dimensions: presets choose from them, screens and pages print them; the plainest first."""


class Standards(NamedTuple):
    """Standard dimensions of some traces: NaN where a trace does not record one, `unrecorded` why none does."""

    traces: Sequence[TraceId]
    values: dict[str, Floats]
    unrecorded: dict[str, str]
    tools: tuple[str, ...]

    def gaps(self, names: Sequence[str]) -> dict[str, str]:
        """Which of these dimensions cannot be used, and why."""
        found = {}
        for name in names:
            known = int(np.sum(~np.isnan(self.values[name])))
            if name in self.unrecorded:
                found[name] = self.unrecorded[name]
            elif known < len(self.traces):
                some = "no trace records it" if known == 0 else f"recorded in {known} of {len(self.traces)} traces only"
                found[name] = some
        return found

    def idle(self, names: Sequence[str]) -> list[str]:
        """Which of these are 0 in every trace: nothing of the kind ever happened."""
        return [n for n in names if not self.values[n].any()]

    def points(self, names: Sequence[str]) -> Floats:
        """(K, d); ask `gaps` first."""
        return np.stack([self.values[n] for n in names], axis=1)


def dimensions() -> dict[str, StepDimension]:
    """Every standard dimension by its name: Ethogram's own, those of installed packages, and every other metric."""
    found = {d.name: d for d in (*DIMENSIONS, *plugged_dimensions().values().values())}
    for kind in metrics().values():
        if kind.is_dimension:
            found.setdefault(kind.name, StepDimension(kind.name, kind.unit, kind.formula, ALL))
    return found


def plugged_dimensions() -> Plugged[StepDimension]:
    """The dimensions of installed packages."""
    own = {d.name for d in DIMENSIONS}
    others = {name: "metric" for name in METRICS if name not in own}
    return plugged(GROUP, _checked, taken={*own, *others}, nouns=others)


def _checked(loaded: Any, name: str) -> StepDimension:
    if not isinstance(loaded, StepDimension):
        raise BadInput(f"it is a {type(loaded).__name__}, not an ethogram.extend.StepDimension")
    if loaded.name != name:
        raise BadInput(
            f"its entry point is named {name!r} and the dimension {loaded.name!r}; give both one name",
            where=f"the entry point {name!r}",
        )
    if not callable(loaded.of):
        raise BadInput("its function 'of' is missing")
    wrong = next((p for p in loaded.presets if p not in PRESETS), None)
    if wrong is not None or isinstance(loaded.presets, str):
        raise BadInput(f"presets are a tuple of these names: {', '.join(PRESETS)}")
    return loaded


def of_preset(preset: str) -> list[str]:
    """The names of a preset's dimensions."""
    if preset not in PRESETS:
        raise NotFound.named("preset", preset, list(PRESETS))
    return [d.name for d in dimensions().values() if preset in d.presets]


def chosen(names: Sequence[str]) -> list[str]:
    """Standard dimensions by name, each known and named once."""
    known = dimensions()
    for name in names:
        if name not in known:
            raise NotFound.named("standard dimension", name, list(known))
    if not names or len(set(names)) != len(names):
        raise BadUsage("name at least one dimension, and each only once")
    return list(names)


def of_tally(found: StandardValues, heads: Sequence[Head], totals: Sequence[Totals], costs: Floats) -> Standards:
    """What was counted of these traces, what the ledger says of them, what they cost, and the metrics that follow."""
    values = dict(found.values)
    amounts = amounts_of(heads, totals) | {"cost_usd": costs}
    values |= amounts
    with np.errstate(invalid="ignore", divide="ignore"):
        per_step = values["seconds"] / values["steps"]
    values["seconds_per_step"] = np.where(values["steps"] > 0, per_step, np.nan)
    unrecorded = dict(found.unrecorded)
    for kind in metrics().values():
        if kind.is_dimension and kind.name not in values:
            try:
                values[kind.name] = kind.measured({**values, **amounts})
            except BadInput as error:
                values[kind.name], unrecorded[kind.name] = np.full(len(heads), np.nan), str(error)
    return Standards([h.trace_id for h in heads], values, unrecorded, tuple(sorted(found.tools)))


def amounts_of(heads: Sequence[Head], totals: Sequence[Totals]) -> dict[str, Floats]:
    """Steps, tokens and seconds as the ledger has them, NaN where they are unknown.

    They are unknown where no model call says them, and where the harness could not count a part. A trace without any
    model call is no exception: an agent may have called a model that nobody recorded. `compare` has the same rule.
    """

    def totalled(name: str) -> Floats:
        return np.fromiter(map(attrgetter(name), totals), np.float64, len(totals))  # None becomes NaN

    found = {name: totalled(name) for name in ("steps", *TOKEN_FIELDS)}
    partly = {i: h.meta[UNMETERED] for i, h in enumerate(heads) if h.meta.get(UNMETERED)}
    for name in TOKEN_FIELDS if partly else ():
        found[name][[i for i, unknown in partly.items() if is_unmetered(unknown, name)]] = np.nan
    found["seconds"] = np.array([h.seconds for h in heads], dtype=np.float64)
    return found


@lru_cache(maxsize=65_536)
def tool_classes(name: str) -> frozenset[str]:
    """The classes of a tool by the words of its name: `WebSearch`, `web-search` and `web_search` are the same."""
    spaced = re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", name)
    plain = "_" + re.sub(r"[^a-z0-9]+", "_", spaced.lower()).strip("_") + "_"
    quiet = any(f"_{w}_" in plain for w in NOT_A_CHANGE)
    found = {c for c, words in TOOL_CLASSES.items() if any(f"_{w}_" in plain for w in words)}
    if "transfer" in found or quiet:
        found -= {"read", "write"}
    if quiet:
        found -= {"file_read", "file_edit"}
    if {"read", "write"} <= found:
        at = {c: min(plain.find(f"_{w}_") for w in TOOL_CLASSES[c] if f"_{w}_" in plain) for c in ("read", "write")}
        found.discard("write" if at["read"] < at["write"] else "read")
    if "file_edit" in found:
        found.discard("file_read")
    return frozenset(found)
