"""Layers on generated scores of two versions.

Where nothing changed, hardly ever does a layer move; a planted fall is found at its layer and nowhere else; and taking
each layer at its own level finds too much.
"""

from __future__ import annotations

import numpy as np
import pytest
from grids import grid_outcomes

from ethogram.measures.layer_changes import LayerComparison, compare_layers
from ethogram.measures.layers import LayerScores
from ethogram.traces import LAYERS, Layer

TASKS, ATTEMPTS, TIMES = 12, 16, 400


def version(rng: np.random.Generator, rates: dict[Layer, np.ndarray]) -> LayerScores:
    """Attempts of every task; each layer passes at its own rate, by chances of its own."""
    columns = {x: np.full((ATTEMPTS, TASKS), np.nan) for x in LAYERS}
    for layer, rate in rates.items():
        columns[layer] = (rng.random((ATTEMPTS, TASKS)) < rate).astype(float)
    outcomes = grid_outcomes(columns["L3"])
    demands = {(layer, task): frozenset(("check",)) for layer in rates for task in outcomes.tasks}
    flat = {layer: values.ravel() for layer, values in columns.items()}
    return LayerScores(outcomes, flat, demands, np.zeros(TASKS * ATTEMPTS, dtype=bool), {})


def difficulty(rng: np.random.Generator) -> dict[Layer, np.ndarray]:
    return {layer: rng.uniform(0.3, 0.95, TASKS) for layer in LAYERS}


def alone(found: LayerComparison) -> bool:
    """The wrong method: every layer for itself, at 5 %."""
    return any(c.p is not None and c.p <= 0.05 for c in found.layers.values())


def test_where_nothing_changed_hardly_ever_a_layer_moves() -> None:
    rng = np.random.default_rng(41)
    moved = wrong = 0
    for _ in range(TIMES):
        rates = difficulty(rng)
        found = compare_layers(version(rng, rates), version(rng, rates))
        moved += bool(found.moved)
        wrong += alone(found)
    noise = 3 * (0.05 * 0.95 / TIMES) ** 0.5
    assert moved / TIMES <= 0.05 + noise
    assert wrong / TIMES > 0.05 + noise, "layers taken one by one find a change somewhere far too often"


@pytest.mark.parametrize(("layer", "suspect"), [("L0", "prompt"), ("L1", "tools")])
def test_a_planted_fall_is_found_at_its_layer(layer: Layer, suspect: str) -> None:
    rng = np.random.default_rng(43)
    times, found_there, elsewhere, led, covered = 150, 0, 0, 0, 0
    for _ in range(times):
        rates = difficulty(rng)
        worse = dict(rates)
        worse[layer] = rates[layer] - 0.25
        found = compare_layers(version(rng, rates), version(rng, worse))
        found_there += found.layers[layer].state == "fell"
        elsewhere += any(x != layer for x in found.moved)
        led += suspect in found.suspects
        truth = {x: -0.25 if x == layer else 0.0 for x in LAYERS}
        ends = {x: (c.difference.low, c.difference.high) for x, c in found.layers.items()}
        covered += all(
            low is not None and high is not None and low <= truth[x] <= high for x, (low, high) in ends.items()
        )
    noise = 3 * (0.05 * 0.95 / times) ** 0.5
    assert found_there / times > 0.9
    assert led / times > 0.9
    assert elsewhere / times <= 0.05 + noise
    assert covered / times >= 0.95 - noise, "the intervals hold together"
