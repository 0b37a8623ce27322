"""Standard dimensions over groups of span files: the same numbers however the lake is cut, and on a real Ray."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ethogram.errors import BadUsage, NotFound
from ethogram.measures.standard_columns import StandardValues, together
from ethogram.questions.field.field import Field
from ethogram.questions.field.question import field
from ethogram.reading.step_columns import FileGroup, SpanRows, StoredSteps, file_groups, span_rows
from ethogram.store import Home, Limits, Policy, Redactor, Run
from ethogram.store.files import LocalFiles
from ethogram.traces import Head, Scored, Span, SpanId, episode_id, trace_id

TOOLS = ("search_orders", "get_order", "update_order", "bash")


def lake(folder: Path, traces: int = 30) -> Run:
    """A run of many small span files; every third trace is long enough to lie in several of them."""
    rng = np.random.default_rng(7)
    run = Home(LocalFiles(folder)).create("lake", "import")
    limits = Limits(group_spans=25, spill_spans=8)
    with run.writer(Redactor(b"test", Policy(kinds=())), window=None, limits=limits) as writer:
        for number in range(traces):
            own = trace_id("lake", str(number))
            sink = writer.trace(own)
            for i in range(20 if number % 3 == 0 else 5):
                fields: dict[str, Any] = {"kind": "model", "name": "chat", "status": "ok"}
                if i % 2:
                    tool = TOOLS[int(rng.integers(4))]
                    said = sink.text(f'{{"n": {int(rng.integers(3))}}}', "arguments")
                    failed = bool(rng.random() < 0.3)
                    fields = {"kind": "tool", "name": tool, "tool": tool, "arguments": said}
                    fields["status"] = "error" if failed else "ok"
                start = 1_700_000_000_000_000_000 + i * 1_000_000_000
                fields |= {"start_ns": start, "end_ns": start + int(rng.integers(1, 10**9))}
                sink.span(Span(trace_id=own, span_id=SpanId(f"s{i}"), seq=i, **fields))
            head = Head(
                trace_id=own, episode=episode_id("lake", str(number)), task=f"task-{number % 3}", attempt=number,
                agent="bot", outcome=Scored(float(rng.random() < 0.5), "test"),
            )  # fmt: skip
            sink.finish(head, ())
    return run


def whole(run: Run) -> FileGroup:
    kept = [(run, e) for e in run.entries]
    steps = np.array([e.totals.steps for e in run.entries])
    return FileGroup(span_rows(kept), [e.head.trace_id for e in run.entries], steps, np.arange(len(kept)))


def same(one: StandardValues, other: StandardValues) -> bool:
    assert one.values.keys() == other.values.keys()
    bits = all(one.values[n].tobytes() == other.values[n].tobytes() for n in one.values)
    return bits and one.told == other.told and one.tools == other.tools and one.unrecorded == other.unrecorded


@pytest.mark.parametrize(("rows", "count"), [(1, 15), (100, 3), (10**6, 1)])
def test_the_same_bits_however_the_lake_is_cut(tmp_path, rows, count):
    run = lake(tmp_path / "home")
    assert max(len(e.spans) for e in run.entries) > 1, "some traces must lie in several files"
    all_of_it = whole(run)
    parts = file_groups(all_of_it, rows)
    assert len(parts) == count
    assert sorted(np.concatenate([p.places for p in parts]).tolist()) == list(range(len(run.entries)))
    homes = {run.files.reach: run.files}
    merged = together([(p.places, p.tally(homes)) for p in parts], len(run.entries))
    assert same(merged, StoredSteps([(run, e) for e in run.entries]).tally())


def test_a_dimension_that_only_one_part_records_is_recorded():
    def part(calls: float, told: set[str]) -> StandardValues:
        return StandardValues({"tool_calls": np.array([calls])}, frozenset(told), frozenset(), {})

    silent, idle = part(2.0, set()), part(0.0, set())
    wants = silent.unrecorded["repeats"]
    assert "repeats" not in idle.unrecorded, "nothing was called, so nothing is untold"
    here, there = np.array([0]), np.array([1])
    assert "repeats" in together([(here, silent), (there, idle)], 2).unrecorded
    assert "repeats" not in together([(here, silent), (there, part(1.0, {wants}))], 2).unrecorded


@settings(deadline=None, max_examples=60)
@given(st.lists(st.lists(st.integers(0, 11), max_size=5), min_size=1, max_size=12), st.integers(1, 9))
def test_files_that_share_a_trace_stay_together(files, rows):
    held = [
        SpanRows("home", "run", f"file{i}", np.arange(len(own)), np.ones(len(own), dtype=np.int64), np.array(own, int))
        for i, own in enumerate(files)
    ]
    used = sorted({t for own in files for t in own})
    parts = file_groups(FileGroup(held, [f"t{i}" for i in range(12)], np.arange(12), np.arange(12)), rows)
    assert sorted(f.path for p in parts for f in p.files) == sorted(f.path for f in held)
    assert sorted(t for p in parts for t in p.traces) == sorted(f"t{i}" for i in used), "each trace in one part only"
    for part in parts:
        assert part.steps.tolist() == part.places.tolist()
        for file in part.files:
            assert [part.traces[i] for i in file.trace] == [f"t{i}" for i in files[int(file.path[4:])]]


def test_engines_that_make_no_sense(tmp_path):
    run = lake(tmp_path / "home", 6)
    with pytest.raises(NotFound, match="no engine named 'rays'; did you mean 'ray'"):
        field(run, engine="rays")
    with pytest.raises(BadUsage, match="leave out engine ray"):
        field(run, field=Field, engine="ray")


MAIN = "from ethogram.cli.main import main; main()"


def python(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """A process of its own: a second local cluster in one process never starts its workers."""
    quiet = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}
    env = {k: v for k, v in os.environ.items() if k != "RAY_ADDRESS"} | quiet | environment
    return subprocess.run(
        [sys.executable, *arguments], env=env, capture_output=True, text=True, check=False, timeout=240
    )


@pytest.mark.xdist_group("ray")
def test_nobody_answers_at_the_address(tmp_path):
    pytest.importorskip("ray", reason="the extra 'ray' is not installed")
    run = lake(tmp_path / "home", 6)
    done = python("-c", MAIN, "field", "lake", "--home", run.files.reach, "--engine", "ray", RAY_ADDRESS="127.0.0.1:9")
    assert done.returncode == 64
    assert done.stderr == (
        "ethogram field: no Ray cluster answers at '127.0.0.1:9' (Connection refused); start one there, "
        "or unset RAY_ADDRESS for a local one\n"
    )


ON_RAY = """
import sys, time
from ethogram.errors import EthogramError
from ethogram.reading import step_columns as field_columns
from ethogram.cluster import Cluster
from ethogram.questions.field.question import field

field_columns.PART_ROWS = 40
home, spans = sys.argv[1:]

def slow():
    time.sleep(60)

with Cluster() as cluster:
    print(field("lake", home=home, preset="service", engine="ray").to_json())
    with open(spans, "r+b") as file:
        file.truncate(200)
    for work in (
        lambda: field("lake", home=home, engine="ray"),
        lambda: Cluster(patience=1.0).map(slow, [()]),
    ):
        try:
            work()
        except EthogramError as error:
            print(type(error).__name__, error)
"""


@pytest.mark.xdist_group("ray")
def test_on_ray_the_result_is_the_same_and_what_goes_wrong_is_a_sentence(tmp_path):
    pytest.importorskip("ray", reason="the extra 'ray' is not installed")
    run = lake(tmp_path / "home")
    here = field(run, preset="service").to_json()
    assert json.loads(here)["horizons"], "states are read there too"
    spans = run.standing.named("spans-")[0].name
    done = python("-c", ON_RAY, run.files.reach, str(tmp_path / "home" / run.path / spans))
    assert done.returncode == 0, done.stderr
    there, damaged, late = done.stdout.splitlines()
    assert there == here
    assert damaged.startswith(f"Damaged {spans} of run 'lake' cannot be read (")
    assert late == "MachineFailure the cluster has ended no task for 1 s; free a CPU of it, then repeat the command"
