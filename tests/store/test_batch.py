"""Batches: many episodes in one entry of the ledger, seen by everything that counts episodes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ethogram.errors import Damaged
from ethogram.plans import episode_seed
from ethogram.questions.home.exports import export
from ethogram.store import (
    Batch,
    Home,
    Lake,
    Policy,
    Redactor,
    RetentionRule,
    Run,
    compact,
    retain_run,
    rewrite,
    verify_run,
)
from ethogram.store.batch import tally
from ethogram.store.entry import Header, Segment
from ethogram.store.episodes import FIGURES
from ethogram.store.ledger import standing
from ethogram.store.ledger_file import decode_segment, encode_segment, hash_of, pack_lines, unpack
from ethogram.traces import EpisodeId, episode_id

WORDS = st.text(max_size=20)
DAY_NS = 86_400 * 10**9


def batch(task: str = "g0001", outcomes: str = "1101", **more: Any) -> Batch:
    known: dict[str, Any] = {"by": "world", "agent": "toy", "seeds": f"u:1:{task}", "meta": {"round": 1, "noise": 0.5}}
    return Batch(id=episode_id("test", task, str(more.get("first", 0))), task=task, outcomes=outcomes, **known | more)


def stored(home: Home, plain: Redactor, *batches: Batch, name: str = "r") -> Run:
    run = home.create(name, "explore")
    for one in batches:
        with run.writer(plain, window=None) as writer:
            writer.batch(one)
    return home.run(name)


@settings(deadline=None, max_examples=30)
@given(
    st.lists(
        st.builds(
            lambda task, letters, first, seeds: Batch(
                id=EpisodeId(task), task=task, outcomes=letters, first=first, seeds=seeds, missing="killed", at_ns=first
            ),
            WORDS,
            st.text("10-", max_size=600),
            st.integers(0, 2**40),
            st.none() | WORDS,
        ),
        max_size=4,
    )
)
def test_a_segment_with_batches_survives_the_round_trip(many: list[Batch]) -> None:
    header = Header(schema_version=2, writer="w", number=0, committed_ns=5)
    name, data = encode_segment(header, (), batches=many)
    assert decode_segment(name, data) == Segment(name, header, (), (), tuple(many))
    assert unpack(name, data).count(b"\n") == len(many) + 1


def test_letters_that_mean_nothing_are_damage() -> None:
    header = Header(schema_version=2, writer="w", number=0, committed_ns=5)
    for said in ('"outcomes":"1x"', '"outcomes":"1-"'):
        lines = unpack(*encode_segment(header, (), batches=[batch(outcomes="11")]))
        bad = pack_lines(lines.replace(b'"outcomes":"11"', said.encode()).splitlines())
        with pytest.raises(Damaged, match=r"ledger segment w-\S+ cannot be read"):
            decode_segment(f"w-{hash_of(bad).removeprefix('b2:')}.jsonl.zst", bad)


def test_of_two_batches_with_one_id_the_first_counts(home: Home, plain: Redactor) -> None:
    """A worker that was taken for lost may have committed what another one then played again."""
    run = stored(home, plain, batch(), batch(outcomes="0000"), batch("g0002", "0"))
    assert [b.outcomes for b in run.batches] == ["1101", "0"]
    assert [b.outcomes for b in standing(run.segments()).batches] == ["1101", "0"]
    assert len(run.episodes()) == 5
    assert Lake([run]).sql("SELECT count(*) AS n FROM episodes").to_pylist() == [{"n": 5}]


def test_columns_and_sql_say_what_batches_say(home: Home, plain: Redactor, write_trace: Any) -> None:
    run = home.create("r", "explore")
    held = [batch(), batch("g0002", "1-0", first=4, condition="hot", missing="infrastructure.timeout", seeds=None)]
    with run.writer(plain, window=None) as writer:
        write_trace(writer, "one")
        for one in held:
            writer.batch(one)
    run = home.run("r")
    found = run.episodes(FIGURES)
    assert len(found) == 8
    names = [[found.names[n][i] for i in getattr(found, n)[1:]] for n in ("task", "condition", "agent")]
    assert names == [["g0001"] * 4 + ["g0002"] * 3, [""] * 4 + ["hot"] * 3, ["toy"] * 7]
    assert found.attempt[1:].tolist() == [0, 1, 2, 3, 4, 5, 6]
    assert found.seed[1:].tolist() == [episode_seed("u:1", "g0001", i) for i in range(4)] + [None] * 3
    said = [None if np.isnan(v) else v for v in found.value[1:]]
    assert said == [1, 1, 0, 1, 1, None, 0]
    assert found.reason[1:].tolist() == [None] * 5 + ["infrastructure.timeout", None]
    assert all(np.isnan(column[1:]).all() for column in found.figures.values())  # unknown, and not 0
    rows = Lake([run]).sql("SELECT * FROM episodes WHERE task LIKE 'g%' ORDER BY task, attempt").to_pylist()
    assert [r["score"] for r in rows] == said
    assert [r["reason"] for r in rows] == found.reason[1:].tolist()
    assert [r["seed"] for r in rows] == found.seed[1:].tolist()
    assert [r["episode"] for r in rows] == [b.episode(i) for b in held for i in range(len(b))]
    assert {(r["trace_id"], r["steps"], r["cost_usd"]) for r in rows} == {(None, None, None)}
    assert {r["meta"] for r in rows} == {'{"round":1,"noise":0.5}'}
    assert Lake([run]).sql("SELECT episodes FROM runs").to_pylist() == [{"episodes": 8}]
    assert tally(held) == {"scored": 6, "infrastructure.timeout": 1}


def test_whatever_rewrites_a_run_keeps_its_batches(
    home: Home, plain: Redactor, write_trace: Any, tmp_path: Path
) -> None:
    run = stored(home, plain, *(batch(f"g{i:04d}") for i in range(6)))
    with run.writer(plain, window=None) as writer:
        write_trace(writer, "one")
    before = sorted((b.id, b.outcomes, b.at_ns) for b in home.run("r").batches)

    def check(segments: int) -> None:
        held = home.run("r")
        assert sorted((b.id, b.outcomes, b.at_ns) for b in held.batches) == before
        found = verify_run(held)
        assert (found.ok, found.episodes, found.leftovers) == (True, 25, [])
        assert len(held.segments()) == segments

    check(7)
    compact(home.run("r"))
    check(1)
    rewrite(home.run("r"))
    check(1)
    gone = retain_run(home.run("r"), RetentionRule(keep_all_s=1), dry_run=False, now_ns=run.info.created_ns + DAY_NS)
    assert len(gone.forgotten) == 1  # only traces can be forgotten
    check(1)
    export("r", "csv", out=tmp_path / "out", home=home)
    assert len((tmp_path / "out" / "episodes.csv").read_text().splitlines()) == 26


def test_names_and_facts_of_a_batch_are_redacted(home: Home) -> None:
    run = home.create("r", "explore")
    with run.writer(Redactor(b"a key for tests", Policy()), window=None) as writer:
        writer.batch(batch("g0001", meta={"mail": "ada.lovelace@example.org", "noise": 1}))
    (held,) = home.run("r").batches
    assert "ada" not in str(held.meta["mail"])
    assert held.meta["noise"] == 1
