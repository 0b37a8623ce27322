"""Every figure of the reference field on real customer-service runs, from the raw trajectories."""

from __future__ import annotations

import gzip
import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ethogram.measures.dimension import Dimension
from ethogram.questions.field.field import Field

DATA = Path(__file__).parents[4] / "shared" / "data"
FILE = "tau_bench/gpt-4o-airline.dev_5tasks.json.gz"
pytestmark = pytest.mark.skipif(not DATA.exists(), reason="../shared/data is not here")

WRITES = {
    "book_reservation",
    "cancel_reservation",
    "update_reservation_baggages",
    "update_reservation_flights",
    "update_reservation_passengers",
    "send_certificate",
}
LOOKS = {"get_reservation_details", "search_direct_flight", "search_onestop_flight"}
STATES = ("start", "identified", "looked_up", "acted", "closed")


def calls(message: dict[str, Any]) -> list[str]:
    return [c["function"]["name"] for c in message.get("tool_calls") or ()]


class Airline(Field):
    """The reference field; the order is declared, the terminal label is found."""

    state_order = STATES

    def dimensions(self) -> list[Dimension]:
        names = "messages tool_calls distinct_tools user_turns writes transfers tool_errors"
        return [*(Dimension(f"n_{n}") for n in names.split()), Dimension("total_chars")]

    def measure(self, trajectory: list[dict[str, Any]]) -> np.ndarray:
        called = [name for m in trajectory for name in calls(m)]
        return np.array(
            [
                len(trajectory),
                len(called),
                len(set(called)),
                sum(m["role"] == "user" for m in trajectory),
                sum(name in WRITES for name in called),
                called.count("transfer_to_human_agents"),
                sum(m["role"] == "tool" and str(m["content"]).startswith("Error") for m in trajectory),
                sum(len(m["content"]) for m in trajectory if isinstance(m["content"], str)),
            ]
        )

    def state(self, trajectory: list[dict[str, Any]], t: int) -> str:
        if t == len(trajectory) - 1:
            return "closed"
        rank = 0
        for name in (n for m in trajectory[: t + 1] for n in calls(m)):
            rank = max(rank, 1 * (name == "get_user_details"), 2 * (name in LOOKS), 3 * (name in WRITES))
        return STATES[rank]


@pytest.fixture(scope="module")
def runs() -> list[dict[str, Any]]:
    with gzip.open(DATA / FILE) as stream:
        found: list[dict[str, Any]] = json.load(stream)
    return found


@pytest.fixture(scope="module")
def field(runs: list[dict[str, Any]]) -> Field:
    field = Airline()
    for run in runs:
        field.add(run["traj"], run["reward"], task=str(run["task_id"]), episode=f"{run['task_id']}/{run['trial']}")
    return field


@pytest.fixture(scope="module")
def expected() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((DATA / "expected.json").read_text())[FILE]
    return found


def check(part: Field, figures: dict[str, Any]) -> None:
    m = part.metrics()
    near = pytest.approx
    assert figures["K"] == part.K
    assert figures["n_success"] == part.success_region().K
    assert float(np.mean(part.outcomes)) == near(figures["mean_reward"], rel=1e-9)
    assert m.width() == near(figures["width"], rel=1e-9)
    assert m.width() - m.variance()[-1] == near(figures["width_without_total_chars"], rel=1e-6)
    assert float(np.sum(m.variance()[:-1])) == near(figures["width_without_total_chars"], rel=1e-9)
    assert m.convergence() == near(figures["convergence"], rel=1e-9)
    assert dict(zip(part.names, m.center(), strict=True)) == near(figures["center"], rel=1e-9)
    assert dict(zip(part.names, m.variance(), strict=True)) == near(figures["variance"], rel=1e-9)
    apart = m.separation()
    assert apart is not None
    assert dict(zip(part.names, apart, strict=True)) == near(figures["separation"], rel=1e-9)
    for name, value in figures["skew"].items():
        assert m.skew(name) == (None if value is None else near(value, rel=1e-9))


def test_the_field(field: Field, expected: dict[str, Any]) -> None:
    check(field, expected["field"])


@pytest.mark.parametrize("rule", ["visited", "reached"])
def test_horizons(field: Field, expected: dict[str, Any], rule: Any) -> None:
    figures = expected[f"horizons_{rule}"]
    assert field.states == list(STATES)
    assert len(figures) == (5 if rule == "visited" else 4)
    for state, part in figures.items():
        found = field.horizon(state, rule=rule)
        check(found, part)
        assert found.origin == (f"horizon {state} ({rule})",)


def test_the_terminal_label_has_no_rank(field: Field, expected: dict[str, Any]) -> None:
    assert field.terminal == "closed"
    furthest = [max((STATES.index(s) for s in path if s != "closed"), default=0) for path in field.state_sequences]
    assert {s: furthest.count(i) for i, s in enumerate(STATES[:4])} == expected["final_open_state_counts"]
    assert field.horizon("closed", rule="reached").K == field.K


def test_reached_nests_and_visited_does_not(field: Field) -> None:
    def inside(rule: Any) -> list[set[str]]:
        return [set(field.horizon(s, rule=rule).episodes) for s in STATES[:4]]

    reached, visited = inside("reached"), inside("visited")
    assert all(later <= earlier for earlier, later in itertools.pairwise(reached))
    assert not all(later <= earlier for earlier, later in itertools.pairwise(visited))
