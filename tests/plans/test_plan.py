"""Seeds, episodes and suites: what was asked, the same on every machine."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

import msgspec
import pytest

from ethogram.plans import Check, Condition, Suite, Task, derived_seed, episode_seed, plan_episodes


@pytest.mark.parametrize(
    ("base", "task", "attempt", "bytes_of_b2sum"),
    [
        (7, "shop-3", 2, "8f40863af1e80300"),
        (0, "t", 0, "401fb42af64c3cfb"),
        ("7", "aufgabe-ü", 0, "7061c3d0867c2e0d"),
    ],
)
def test_seeds_are_those_that_coreutils_gives(base: Any, task: str, attempt: int, bytes_of_b2sum: str) -> None:
    """Made with `printf '7:shop-3:2' | b2sum -l 64`, read as a little-endian number."""
    assert episode_seed(base, task, attempt) == int.from_bytes(bytes.fromhex(bytes_of_b2sum), "little")


def test_one_seed_by_its_number() -> None:
    assert episode_seed(7, "shop-3", 2) == 1_100_547_696_771_215
    assert derived_seed(42, "world") == int.from_bytes(bytes.fromhex("be494bc6e4b3ece3"), "little")


def test_seeds_differ_by_everything_but_agent_and_condition() -> None:
    conditions = (Condition(), Condition(name="noisy", settings={"noise": 0.1}))
    ours = plan_episodes(("a", "b"), "ours", 3, 7, conditions)
    theirs = plan_episodes(("a", "b"), "theirs", 3, 7, conditions)
    assert [e.seed for e in ours] == [e.seed for e in theirs]
    assert len({e.id for e in (*ours, *theirs)}) == 24
    by_place = {(e.task, e.attempt): e.seed for e in ours}
    assert len(set(by_place.values())) == 6
    assert all(e.seed == by_place[e.task, e.attempt] for e in ours)
    assert {e.seed for e in plan_episodes(("a",), "ours", 3, 8)}.isdisjoint(by_place.values())


def test_a_plan_that_is_cut_off_is_balanced() -> None:
    planned = plan_episodes(("a", "b"), "x", 3, 0, (Condition(), Condition(name="c")))
    assert [e.attempt for e in planned] == [0] * 4 + [1] * 4 + [2] * 4
    assert [(e.condition, e.task) for e in planned[:4]] == [("", "a"), ("", "b"), ("c", "a"), ("c", "b")]


def suite(**settings: Any) -> Suite:
    check = Check(kind="equals", settings=settings or {"to": "ding", "case": False})
    return Suite(name="bells", tasks=(Task(id="ring", prompt="Ring.", checks=(check,)), Task(id="stop")))


def test_the_digest_of_a_suite_can_be_derived_by_hand() -> None:
    text = (
        b'{"name":"bells","tasks":[{"id":"ring","prompt":"Ring.","checks":'
        b'[{"kind":"equals","settings":{"case":false,"to":"ding"}}]},{"id":"stop"}]}'
    )
    state = blake2b(digest_size=16)
    for part in (b"suite", text):
        state.update(len(part).to_bytes(8, "little") + part)
    assert suite().digest == "b2:" + state.hexdigest()


def test_the_digest_stands_for_all_that_is_asked_and_nothing_else() -> None:
    assert suite(to="ding", case=False).digest == suite(case=False, to="ding").digest
    copied = msgspec.json.decode(msgspec.json.encode(suite()), type=Suite)
    assert copied.digest == suite().digest
    changed = [
        suite(to="dong"),
        msgspec.structs.replace(suite(), version="2"),
        msgspec.structs.replace(suite(), success_at=0.9),
        msgspec.structs.replace(suite(), on_crash="zero"),
        msgspec.structs.replace(suite(), tasks=suite().tasks[::-1]),
        msgspec.structs.replace(suite(), tasks=suite().tasks[:1]),
    ]
    assert len({suite().digest, *(s.digest for s in changed)}) == 1 + len(changed)


def test_a_task_is_found_by_its_id() -> None:
    assert suite().task("stop").id == "stop"
