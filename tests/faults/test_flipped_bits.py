"""Bits flip in every file of a home: each flip is reported, or does no harm because the file is made anew.

Reading a damaged run says so in one sentence.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ethogram.cli.main import run_verb as command
from ethogram.errors import EthogramError
from ethogram.harness.suites import run as run_suite
from ethogram.plans import Suite, Task
from ethogram.questions.divergence.question import divergence
from ethogram.questions.explore.buying.start import ExploreOptions
from ethogram.questions.explore.buying.world import begin_exploration
from ethogram.questions.home.maintenance import verify
from ethogram.questions.logs.imports import import_logs
from ethogram.store import Home, Run, manifest
from ethogram.store.compact import compact
from ethogram.store.files import LocalFiles
from ethogram.store.numbered import addresses
from ethogram.worlds.toy_v1 import ToyWorld

FLIPS = 4
"""Of each file."""


def agent(task: Task, episode: object) -> str:
    if task.id == "crashes":
        raise ValueError("it was not to be")
    episode.record.tool("look", lambda where: f"nothing in {where}", where=task.id)  # type: ignore[attr-defined]
    return "yes"


def filled(root: Path) -> Home:
    """A home with a run, an import, an exploration and figures that were derived."""
    home = Home(LocalFiles(root))
    suite = Suite(name="small", tasks=tuple(Task(id=name, expected="yes") for name in ("one", "two", "crashes")))
    run_suite(suite, agent, home=home, run="run", k=3, tags=("a",), meta={"note": "words of some length"})
    divergence("run", home=home)
    log = root.parent / "log.json"
    log.write_text('{"messages": [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "good day"}]}')
    import_logs(log, home=home, run="import")
    begin_exploration(ToyWorld(synthetic=True), ExploreOptions(name="explored", rounds=2, seed=1), home=home)
    return home


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    return filled(tmp_path_factory.mktemp("flips") / "home")


def files(home: Home) -> list[Path]:
    root = Path(home.files.address)
    return sorted(p for p in root.rglob("*") if p.is_file())


@contextmanager
def flipped(path: Path, rng: random.Random) -> Iterator[str]:
    """The file with one bit flipped, for as long as the block lasts."""
    whole = path.read_bytes()
    at, bit = rng.randrange(len(whole)), rng.randrange(8)
    broken = bytearray(whole)
    broken[at] ^= 1 << bit
    path.write_bytes(bytes(broken))
    try:
        yield f"bit {bit} of byte {at} of {path.name}"
    finally:
        path.write_bytes(whole)


def test_a_whole_home_is_whole_and_every_file_is_covered(home: Home) -> None:
    found = verify(home=home)
    assert found.ok
    assert not found.unproven
    assert [r.unproven for r in found.runs] == [[], [], []]
    kinds = {p.relative_to(home.files.address).parts[0] for p in files(home)}
    assert kinds == {"runs", "redaction.key", manifest.NAME, ".stop.json.ready"}


def test_every_flip_is_reported_or_does_no_harm(home: Home) -> None:
    before = divergence("run", home=home).to_json()
    rng = random.Random(11)
    counted: dict[str, int] = {}
    for path in files(home):
        place = path.relative_to(home.files.address)
        for _ in range(FLIPS if path.stat().st_size else 0):
            whole = path.read_bytes()
            with flipped(path, rng) as what:
                if "derived" in place.parts:  # disposable: a damaged one is passed over and computed again
                    assert divergence("run", home=Home(LocalFiles(Path(home.files.address)))).to_json() == before, what
                else:
                    runs = [place.parts[1]] if place.parts[0] == "runs" else []
                    found = verify(runs, home=Home(LocalFiles(Path(home.files.address))))
                    assert not found.ok or _says_the_same(path, whole), f"{what} of {place} went unnoticed"
            counted[path.suffix] = counted.get(path.suffix, 0) + 1
    assert set(counted) >= {".parquet", ".zst", ".json", ".npz", ".csv", ".key"}
    assert sum(counted.values()) >= 120


def _says_the_same(path: Path, whole: bytes) -> bool:
    """A space for a line break in a JSON document changes nothing that it says."""
    try:
        return path.suffix == ".json" and bool(json.loads(path.read_bytes()) == json.loads(whole))
    except ValueError:
        return False


COMMANDS: tuple[Callable[[str, Path], list[str]], ...] = (
    lambda trace, out: ["trace", trace, "--run", "run"],
    lambda trace, out: ["export", "run", "--to", "jsonl", "-o", str(out)],
    lambda trace, out: ["export", "run", "--to", "atif", "-o", str(out)],
    lambda trace, out: ["sql", "SELECT * FROM spans", "--run", "run"],
    lambda trace, out: ["show", "run"],
    lambda trace, out: ["stats", "run"],
)


@pytest.mark.parametrize("kind", ["spans", "texts"])
def test_a_damaged_file_is_told_in_one_sentence(
    home: Home, kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ETHOGRAM_HOME", home.files.address)
    run = home.resolve("run")
    traces = [e.head.trace_id for e in run.entries]
    (path,) = Path(home.files.address, run.path).glob(f"{kind}-*.parquet")
    rng = random.Random(5)
    told = 0
    for number in range(12):
        with flipped(path, rng) as what:
            for make in COMMANDS:
                code = command(make(rng.choice(traces), tmp_path / f"out{number}"))
                said = capsys.readouterr().err
                assert code in (0, 1, 64), what
                assert said.count("\n") == (code != 0), f"{what}: {said}"
                assert "Traceback" not in said
                told += code != 0
    assert told > 10


def test_words_that_a_changed_footer_makes_bytes(
    home: Home, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ETHOGRAM_HOME", home.files.address)
    run = home.resolve("run")
    (path,) = Path(home.files.address, run.path).glob("texts-*.parquet")
    whole = path.read_bytes()
    table = pq.read_table(path)
    kinds = pa.schema([(f.name, pa.binary() if f.name == "body" else f.type) for f in table.schema])
    pq.write_table(table.cast(kinds), path)
    try:
        assert command(["trace", run.entries[0].head.trace_id, "--run", "run"]) in (1, 64)
        said = capsys.readouterr().err
        assert "column body is binary instead of string" in said
        assert said.count("\n") == 1
    finally:
        path.write_bytes(whole)


def test_addresses_that_a_changed_footer_makes_bytes_are_told_with_the_name_of_their_own_file(tmp_path: Path) -> None:
    home = Home(LocalFiles(tmp_path / "home"))
    for words in ("one", "two", "three"):
        log = tmp_path / f"{words}.json"
        log.write_text(json.dumps({"messages": [{"role": r, "content": words} for r in ("user", "assistant")]}))
        import_logs(log, home=home, run="import")
    run = home.resolve("import")
    path = sorted(Path(home.files.address, run.path).glob("texts-*.parquet"))[0]
    table = pq.read_table(path)
    kinds = pa.schema([(f.name, pa.binary() if f.name == "ref" else f.type) for f in table.schema])
    pq.write_table(table.cast(kinds), path, store_schema=False)
    (numbered,) = [f.name for f in run.standing.named("spans-") if f.refers_to == path.name]
    for read in (
        lambda: addresses(run.files, run.path, numbered, path.name),
        lambda: compact(run, few=2),
    ):
        with pytest.raises(EthogramError, match="column ref is binary instead of string") as told:
            read()
        assert path.name in str(told.value)


@pytest.mark.parametrize("damage", ["cut", "emptied", "gone", "replaced by other columns"])
def test_a_spans_file_that_is_no_longer_one(
    tmp_path: Path, damage: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Home(LocalFiles(tmp_path / "home"))
    suite = Suite(name="small", tasks=(Task(id="one", expected="yes"),))
    run_suite(suite, agent, home=home, run="run")
    monkeypatch.setenv("ETHOGRAM_HOME", home.files.address)
    run = home.resolve("run")
    folder = Path(home.files.address, run.path)
    (path,) = folder.glob("spans-*.parquet")
    if damage == "gone":
        path.unlink()
    else:
        (other,) = folder.glob("texts-*.parquet")
        path.write_bytes({"cut": path.read_bytes()[:-9], "emptied": b""}.get(damage, other.read_bytes()))
    trace = run.entries[0].head.trace_id
    for make in COMMANDS[: 3 if "columns" in damage else 4]:  # to DuckDB any columns are welcome
        code = command(make(trace, tmp_path / "out"))
        said = capsys.readouterr().err
        assert code in (1, 64), damage
        assert said.count("\n") == 1, said
    with pytest.raises(EthogramError):
        list(Run(home.files, run.path, home.keys).traces())
