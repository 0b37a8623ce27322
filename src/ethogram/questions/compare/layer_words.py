"""Layers in words and rows, as screens, reports and comments for a pull request show them."""

from __future__ import annotations

from collections.abc import Mapping

from ethogram.estimate import Estimate
from ethogram.measures.layer_changes import LayerChange, LayerComparison
from ethogram.measures.layers import NAMES
from ethogram.traces import Layer

COLUMNS = ["layer", "base", "candidate", "difference", "adjusted p", "change"]


def layer_words(layer: Layer) -> str:
    """`L1 tool calls`."""
    return f"{layer} {NAMES[layer]}"


def change_rows(found: LayerComparison) -> list[list[str]]:
    """One row per layer that both versions have; nothing where only one is measured, for it is the whole difference."""
    measured = [c for c in found.layers.values() if c.state != "not measured"]
    return [_row(c) for c in measured] if len(measured) > 1 else []


def change_lines(found: LayerComparison) -> list[str]:
    """Where to look, and what the layers leave open; nothing where fewer than two are measured."""
    if not change_rows(found):
        return []
    open_ = [f"not settled: {found.unsettled}"] if found.unsettled else []
    return [f"layers: {found.look}", *open_, *(f"note: {n}" for n in found.notes)]


def rate_words(layers: Mapping[Layer, Estimate]) -> str:
    """The rates of the layers that are measured on one line, and the names of those that are not."""
    told = [f"{layer_words(layer)} {_between(rate)}" for layer, rate in layers.items() if rate.value is not None]
    unknown = [layer for layer, rate in layers.items() if rate.value is None]
    return "; ".join([*told, f"not measured: {', '.join(unknown)}"] if unknown else told)


def _row(change: LayerChange) -> list[str]:
    rates = [f"{e.value:.2f}" if e.value is not None else "–" for e in (change.base, change.candidate)]
    adjusted = "–" if change.adjusted is None else f"{change.adjusted:.3g}"
    return [layer_words(change.layer), *rates, _between(change.difference, "+"), adjusted, change.state]


def _between(estimate: Estimate, sign: str = "") -> str:
    if estimate.value is None:
        return "–"
    if estimate.low is None or estimate.high is None:
        return f"{estimate.value:{sign}.2f}"
    return f"{estimate.value:{sign}.2f} [{estimate.low:{sign}.2f}, {estimate.high:{sign}.2f}]"
