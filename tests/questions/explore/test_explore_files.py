"""Files of an exploration are written from its ledger: whatever is lost of them comes back, byte for byte."""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ethogram.errors import BadInput, Damaged, Refused
from ethogram.plans import Check, Suite, Task
from ethogram.questions.explore.buying.start import ExploreOptions
from ethogram.questions.explore.buying.suite import explore_suite
from ethogram.questions.explore.buying.world import begin_exploration
from ethogram.questions.explore.documents import (
    METADATA,
    METRICS,
    POST,
    POSTERIORS,
    PRE,
    RESULTS,
    ROUND_FILES,
    TABLES,
)
from ethogram.questions.explore.exploration import open_exploration
from ethogram.questions.explore.files_v1 import RoundsWriter
from ethogram.questions.explore.grid import ROUND, grid
from ethogram.questions.explore.maps import map_exploration
from ethogram.questions.home.maintenance import verify
from ethogram.questions.home.runs import show
from ethogram.store import Home, Lake, Policy, Run, ledger, ledger_file, manifest
from ethogram.store.files import LocalFiles
from ethogram.store.lake import DOCUMENTS, EXPLORED
from ethogram.store.rescore import append_outcomes
from ethogram.traces import Scored
from ethogram.worlds.toy_v1 import ToyWorld

DONE = 3
SMALL = grid(
    {
        "tool_noise": [0, 3],
        "verify_flip": [0.0, 0.2],
        "hint_ambiguity": [0, 3],
        "distractor_count": [0],
        "memory_tokens": [64],
    }
)
SUITE = Suite(
    name="colours",
    tasks=tuple(Task(id=f"g{i}", prompt="?", expected="right", checks=(Check(kind="equals"),)) for i in range(3)),
)
"""Tasks with names that grid points could have."""
ROOM = grid({"noise": [0, 1, 2], "style": ["curt", "kind"]})
ADVICE = (
    "{} of the damaged files can be written again from the ledger: {}repeat the ethogram explore command that began "
    f"the run, with --until-round {DONE} to buy nothing more"
)
Go = Callable[[Path, Home, int], object]


def steady(task, episode):
    return "wrong" if episode.rng.random() < 0.15 * (1 + episode.condition["noise"]) else "right"


def of_world(place: Path, home: Home, until: int, **more):
    options = ExploreOptions(seed=4, targets_per_round=4, until_round=until, run_dir=str(place), **more)
    return begin_exploration(ToyWorld(), options, grid=SMALL, home=home)


def of_traced_world(place: Path, home: Home, until: int):
    return of_world(place, home, until, store_traces=True)


def of_two_workers(place: Path, home: Home, until: int):
    return of_world(place, home, until, workers=2)


def of_suite(place: Path, home: Home, until: int):
    options = ExploreOptions(seed=4, until_round=until, run_dir=str(place))
    return explore_suite(SUITE, steady, ROOM, options, home=home)


KINDS: dict[str, Go] = {"world": of_world, "traced": of_traced_world, "workers": of_two_workers, "suite": of_suite}


@pytest.fixture(scope="module")
def lab(tmp_path_factory) -> Home:
    return Home(LocalFiles(tmp_path_factory.mktemp("home")))


@pytest.fixture(scope="module")
def twins(lab: Home, tmp_path_factory) -> dict[str, Path]:
    """Explorations of three rounds, and the same ones after a fourth."""
    folder = tmp_path_factory.mktemp("twins")
    found = {}
    for kind, go in KINDS.items():
        go(folder / kind, lab, DONE)
        found[kind] = folder / kind
        shutil.copytree(folder / kind, folder / f"{kind}-longer")
        go(folder / f"{kind}-longer", lab, DONE + 1)
        found[f"{kind}-longer"] = folder / f"{kind}-longer"
    return found


def seed_files(place: Path) -> dict[str, bytes]:
    """All files that the first version had, by name."""
    names = [METADATA, *TABLES, *(str(f.relative_to(place)) for f in place.glob("rounds/*/*"))]
    return {name: (place / name).read_bytes() for name in names if (place / name).exists()}


def untimed(files: dict[str, bytes]) -> dict[str, bytes]:
    """The same without what says when a round was run."""
    return {name: data for name, data in files.items() if not name.endswith((PRE, POST))}


def lose(place: Path, names: Iterable[str]) -> None:
    for name in names:
        (place / name).unlink()
    for folder in place.glob("rounds/*"):
        if not any(folder.iterdir()):
            folder.rmdir()


def episodes(place: Path, home: Home) -> int:
    (row,) = Lake([home.resolve(str(place))]).sql("SELECT count(*) AS n FROM episodes").to_pylist()
    return row["n"]


def check_restored(kind: str, twins: dict[str, Path], lab: Home, place: Path, names: Iterable[str]) -> None:
    """Lose files, look at what is left, go on, and compare with the twin that lost nothing."""
    whole = seed_files(twins[kind])
    shutil.copytree(twins[kind], place)
    lose(place, names)
    assert episodes(place, lab) == episodes(twins[kind], lab)
    (checked,) = verify([str(place)], home=lab).runs
    assert {p.where: p.what for p in checked.damaged} == dict.fromkeys(names, "the file is missing")
    assert checked.advice == ADVICE.format(len(set(names)), "")
    result = KINDS[kind](place, lab, DONE)
    assert (result.rounds, result.new_rounds) == (DONE, 0)
    assert seed_files(place) == whole
    assert verify([str(place)], home=lab).ok
    KINDS[kind](place, lab, DONE + 1)
    longer = twins[f"{kind}-longer"]
    assert untimed(seed_files(place)) == untimed(seed_files(longer))
    assert episodes(place, lab) == episodes(longer, lab)
    assert verify([str(place)], home=lab).ok


def names_of(kind: str, twins: dict[str, Path], pattern: str) -> list[str]:
    return [name for name in seed_files(twins[kind]) if Path(name).match(pattern)]


PATTERNS = [
    METADATA,
    *TABLES,
    *(f"R000{number}_*/{name}" for number in (1, DONE) for name in ROUND_FILES),
    "R0002_*/*",
    "R0003_*/*",
    "rounds/*/*",
    "*.csv",
    "*.json",
    "*",
]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_lost_file_is_written_again(twins, lab, tmp_path, pattern):
    names = names_of("world", twins, pattern)
    assert names
    check_restored("world", twins, lab, tmp_path / "r", names)


@pytest.mark.parametrize("kind", ["traced", "workers", "suite"])
@pytest.mark.parametrize("pattern", [METADATA, f"R0001_*/{RESULTS}", "R0002_*/*", "rounds/*/*", "*"])
def test_so_it_is_whatever_was_explored(twins, lab, tmp_path, kind, pattern):
    check_restored(kind, twins, lab, tmp_path / "r", names_of(kind, twins, pattern))


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_files_may_be_lost_together(twins, lab, tmp_path_factory, data):
    kind = data.draw(st.sampled_from(["world", "suite"]))
    names = data.draw(st.sets(st.sampled_from(sorted(seed_files(twins[kind]))), min_size=1))
    check_restored(kind, twins, lab, tmp_path_factory.mktemp("lost") / "r", names)


@pytest.mark.parametrize("kind", ["world", "suite"])
def test_the_map_is_read_from_the_ledger(twins, lab, tmp_path, kind):
    place = tmp_path / twins[kind].name
    shutil.copytree(twins[kind], place)
    before = map_exploration(str(place), home=lab)
    lose(place, seed_files(place))
    shutil.rmtree(place / "derived", ignore_errors=True)
    assert map_exploration(str(place), home=lab) == before
    assert open_exploration(str(place), home=lab).metadata().run_uuid in json.dumps(
        json.loads((place / "run.json").read_text())
    )


def test_an_episode_of_a_suite_names_its_round(twins, lab):
    run = lab.resolve(str(twins["suite"]))
    plans = [json.loads(f.read_text()) for f in sorted(twins["suite"].glob("rounds/*/active_sampling_plan.json"))]
    query = f"SELECT (meta->>'$.{ROUND}')::INT AS round, count(*) AS n FROM episodes GROUP BY round ORDER BY round"
    assert Lake([run]).sql(query).to_pylist() == [
        {"round": i, "n": plan["total_episodes"]} for i, plan in enumerate(plans, 1)
    ]


def test_a_file_that_was_changed_is_told_and_left(twins, lab, tmp_path):
    place = tmp_path / "r"
    shutil.copytree(twins["world"], place)
    metrics = next(place.glob("rounds/R0002_*/metrics.json"))
    before = metrics.read_bytes()
    metrics.write_bytes(before.replace(b'"seed": 5', b'"seed": 6'))
    (checked,) = verify([str(place)], home=lab).runs
    assert [p.what for p in checked.damaged] == ["the bytes do not match the hash in hashes.json"]
    assert checked.advice == ADVICE.format(1, "move away those that are there, and ")
    with pytest.raises(BadInput, match=r"metrics.json of 'r' is not what its ledger holds; move it away"):
        of_world(place, lab, DONE)
    metrics.unlink()
    of_world(place, lab, DONE)
    assert metrics.read_bytes() == before


def successes_in(place: Path, home: Home) -> list[int]:
    """Successes as the ledger, the results of all rounds, the posteriors and the map have them."""
    run = home.resolve(str(place))
    results = [csv.DictReader(f.read_text().splitlines()) for f in place.glob("rounds/*/agent_results.csv")]
    points = map_exploration(str(place), home=home).points
    return [
        sum(task.successes for task in show(run).tasks),
        sum(line["success"] == "1" for lines in results for line in lines),
        int((np.load(place / "beta_posteriors.npz")["beta"] - 1).sum()),
        sum(point.episodes - point.failures for point in points),
    ]


@pytest.mark.parametrize("kind", ["suite", "traced"])
def test_outcomes_that_were_scored_anew_are_in_every_file(twins, lab, tmp_path, kind):
    place = tmp_path / "r"
    shutil.copytree(twins[kind], place)
    before = seed_files(place)
    run = lab.resolve(str(place))
    turned = [e.head.trace_id for e in run.entries if e.head.outcome.success(0.5)][::3]
    append_outcomes(run, dict.fromkeys(turned, Scored(0.0)), [], lab.redactor(Policy(kinds=())))
    KINDS[kind](place, lab, DONE)
    after = seed_files(place)
    assert {Path(name).name for name in after if after[name] != before[name]} == {RESULTS, POSTERIORS}
    assert verify([str(place)], home=lab).ok
    assert len(set(successes_in(place, lab))) == 1
    KINDS[kind](place, lab, DONE + 1)
    assert len(set(successes_in(place, lab))) == 1
    assert verify([str(place)], home=lab).ok


@pytest.mark.parametrize("changed", [POSTERIORS, RESULTS])
def test_a_changed_file_is_not_taken_for_one_of_other_scores(twins, lab, tmp_path, changed):
    """What somebody wrote over is no older state of the ledger."""
    place = tmp_path / "r"
    shutil.copytree(twins["suite"], place)
    file = next(place.glob(f"**/{changed}"))
    if changed == POSTERIORS:
        arrays = dict(np.load(file))
        np.savez(file, **{**arrays, "beta": arrays["beta"] + 1})
        with pytest.raises(BadInput, match="is not what its committed rounds give; move it away"):
            of_suite(place, lab, DONE)
    else:
        file.write_bytes(wrong := file.read_bytes().replace(b",1,", b",0,"))
        of_suite(place, lab, DONE)
        assert file.read_bytes() == wrong
    assert not verify([str(place)], home=lab).ok


def test_a_success_is_what_the_last_scoring_says(twins, lab, tmp_path):
    place = tmp_path / "r"
    shutil.copytree(twins["suite"], place)
    run = lab.resolve(str(place))
    assert successes_in(place, lab)[0] > 0
    append_outcomes(run, {}, [], lab.redactor(Policy(kinds=())), success_at=1.1)
    assert successes_in(place, lab)[::3] == [0, 0]
    of_suite(place, lab, DONE + 1)
    assert successes_in(place, lab) == [0] * 4


def test_an_exploration_without_a_round_is_refused(home):
    home.create("begun", "explore")
    with pytest.raises(Refused, match="'begun' has no complete round yet; run: ethogram explore"):
        map_exploration("begun", home=home)


# -- kills ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["_note", "_write"])
@pytest.mark.parametrize("kind", ["world", "suite"])
def test_a_kill_beside_the_commit_counts_nothing_twice(twins, lab, tmp_path, monkeypatch, method, kind):
    """Before the metrics are committed a round is not complete, after that it is, whatever files there are."""
    place = tmp_path / "r"
    usual = getattr(RoundsWriter, method)

    def killed(self, contents):
        if any("R0002" in name and name.endswith(METRICS) for name in contents):
            raise KeyboardInterrupt
        usual(self, contents)

    with monkeypatch.context() as patch:
        patch.setattr(RoundsWriter, method, killed)
        with pytest.raises(KeyboardInterrupt):
            KINDS[kind](place, lab, DONE)
    assert not list(place.glob("rounds/R0002_*/metrics.json"))
    complete = 1 if method == "_note" else 2
    assert len(open_exploration(str(place), home=lab).committed()) == complete
    assert verify([str(place)], home=lab).ok
    result = KINDS[kind](place, lab, DONE)
    assert result.new_rounds == DONE - complete
    assert untimed(seed_files(place)).keys() == untimed(seed_files(twins[kind])).keys()
    ours, theirs = (untimed(seed_files(p)) for p in (place, twins[kind]))
    assert {n for n in ours if ours[n] != theirs[n]} <= {METADATA}  # it says when the run was begun
    assert verify([str(place)], home=lab).ok


@pytest.mark.parametrize("kind", ["world", "suite"])
def test_a_round_in_between_keeps_its_plan(twins, lab, tmp_path, monkeypatch, kind):
    place = tmp_path / "r"
    usual = RoundsWriter._write

    def killed(self, contents):
        if any("R0002" in name and name.endswith(RESULTS) for name in contents):
            raise KeyboardInterrupt
        usual(self, contents)

    with monkeypatch.context() as patch:
        patch.setattr(RoundsWriter, "_write", killed)
        with pytest.raises(KeyboardInterrupt):
            KINDS[kind](place, lab, DONE)
    before = seed_files(place)
    shutil.rmtree(place / "rounds")
    (place / "beta_posteriors.npz").unlink()
    assert KINDS[kind](place, lab, 1).new_rounds == 0
    assert seed_files(place) == before
    assert verify([str(place)], home=lab).ok
    KINDS[kind](place, lab, DONE)
    ours, theirs = (untimed(seed_files(p)) for p in (place, twins[kind]))
    assert {n for n in ours if ours[n] != theirs[n]} <= {METADATA}


# -- earlier versions -------------------------------------------------------------------------------------------------


def forget_documents(run: Run) -> None:
    """Leave a run as an earlier version stored it: documents in files only."""
    for segment in run.segments():
        files = tuple(f for f in segment.header.files if not f.name.startswith(DOCUMENTS))
        header = msgspec.structs.replace(segment.header, files=files)
        run.files.delete(f"{run.path}/{ledger.FOLDER}/{segment.name}")
        if segment.entries or segment.batches or files:
            name, data = ledger_file.encode_segment(header, list(segment.entries), batches=list(segment.batches))
            run.files.publish(f"{run.path}/{ledger.FOLDER}/{name}", data)
    run.files.delete(f"{run.path}/{DOCUMENTS}")
    run.forget_cache()


@pytest.fixture(params=["world", "suite"])
def old(request, twins, lab, tmp_path) -> tuple[str, Path]:
    place = tmp_path / "old"
    shutil.copytree(twins[request.param], place)
    forget_documents(lab.resolve(str(place)))
    assert verify([str(place)], home=lab).ok
    return request.param, place


def test_an_exploration_of_an_earlier_version_moves_into_the_ledger(old, twins, lab):
    kind, place = old
    whole = seed_files(place)
    KINDS[kind](place, lab, DONE)
    assert seed_files(place) == whole
    lose(place, whole)
    KINDS[kind](place, lab, DONE)
    assert seed_files(place) == whole
    assert verify([str(place)], home=lab).ok


def test_what_an_earlier_version_derived_comes_back(old, lab):
    """When a round was run stands nowhere else; all other bytes are the same."""
    kind, place = old
    whole = seed_files(place)
    lose(place, [n for n in whole if n in TABLES or n.endswith((PRE, RESULTS, POST))])
    KINDS[kind](place, lab, DONE)
    assert untimed(seed_files(place)) == untimed(whole)
    for name in (n for n in whole if n.endswith((PRE, POST))):
        lost, told = json.loads(whole[name]), json.loads((place / name).read_bytes())
        assert {k: v for k, v in lost.items() if told[k] != v}.keys() <= {"timestamp", "completed_at"}
        assert None in told.values()
    assert verify([str(place)], home=lab).ok


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("rounds/*/*", "the rounds of 'old' are missing, and an earlier version kept plans and metrics in files only"),
        ("R0002_*/*", r"rounds of 'old' are missing: there are \[1, 3\], and an earlier version kept"),
        ("R0001_*/active_sampling_plan.json", "active_sampling_plan.json of 'old' is missing, and an earlier version"),
    ],
)
def test_what_only_an_earlier_versions_file_held_is_asked_for(old, lab, pattern, words):
    kind, place = old
    lose(place, [name for name in seed_files(place) if Path(name).match(pattern)])
    assert not verify([str(place)], home=lab).ok
    for look in (lambda: map_exploration(str(place), home=lab), lambda: KINDS[kind](place, lab, DONE)):
        with pytest.raises(Damaged, match=words) as told:
            look()
        assert "restore" in str(told.value)


def test_metadata_of_an_earlier_version_are_asked_for(old, lab):
    kind, place = old
    lose(place, [METADATA, *(n for n in seed_files(place) if n.startswith("rounds/"))])
    with pytest.raises(BadInput, match=r"'old' has rounds but no run_metadata.json; restore it"):
        KINDS[kind](place, lab, DONE)


def test_a_suite_whose_outcomes_were_noted_too_goes_on(twins, lab, tmp_path):
    """As the first versions stored it: outcomes stand in notes too, and the metadata do not name the tasks."""
    place = tmp_path / "old"
    shutil.copytree(twins["suite"], place)
    rounds = open_exploration(str(place), home=lab)
    metadata = rounds.metadata()
    parts, _ = rounds.bought(metadata, rounds.committed())
    forget_documents(rounds.run)
    with rounds.run.writer(lab.redactor(Policy(kinds=()))) as writer:
        writer.note(EXPLORED, [msgspec.json.encode(one) for part in parts for one in part])
    plain = {k: v for k, v in msgspec.to_builtins(metadata).items() if k not in ("tasks", "success_at")}
    manifest.publish(rounds.run.files, rounds.run.path, {METADATA: msgspec.json.encode(plain)})
    before = map_exploration(str(place), home=lab)
    assert before.episodes == sum(len(one.outcomes) for part in parts for one in part)
    of_suite(place, lab, DONE + 1)
    longer = twins["suite-longer"]
    assert untimed(seed_files(place)) == untimed(seed_files(longer))
    assert map_exploration(str(place), home=lab).points == map_exploration(str(longer), home=lab).points
    assert verify([str(place)], home=lab).ok
