"""Names, cuts and reasons that are made of payload words: no part of a secret is in them, wherever it was cut."""

from __future__ import annotations

import importlib.util
import json
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from ethogram.capture.draft import Draft
from ethogram.harness.faults import SandboxFault
from ethogram.harness.suites import run
from ethogram.plans import Check, Suite, Task
from ethogram.questions.home.exports import export
from ethogram.questions.home.runs import show
from ethogram.questions.logs.imports import import_logs
from ethogram.questions.why.question import why
from ethogram.store import Home, Keyring, Redactor
from ethogram.store.files import LocalFiles
from ethogram.store.head_texts import name_of_words
from ethogram.store.ledger_file import unpack
from ethogram.traces import Message, Text, cut_whole, end_whole
from ethogram.viewer.report.report import report
from ethogram.wire.session_store import SessionStore


def _beside(path: str) -> ModuleType:
    """A module of other tests, by its path: tests are no package."""
    place = Path(__file__).parents[1] / path
    spec = importlib.util.spec_from_file_location(place.stem, place)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


MADE: Any = _beside("store/planted_set.py")
SAMPLES: dict[str, bytes] = _beside("capture/readers/samples.py").SAMPLES
KEY = b"a key for tests"


def planted(count: int, seed: int) -> Iterator[tuple[Any, str]]:
    """Secrets that are found in an open text, and a question in which the place of a cut lies inside each."""
    rng, redactor, kinds = random.Random(seed), Redactor(KEY), list(MADE.KINDS)
    number = 0
    while count:
        secret = MADE.KINDS[kinds[number % len(kinds)]](rng)
        number += 1
        at = secret.line.index(secret.core)
        before = max(0, 60 - at - rng.randint(1, min(55, len(secret.core) - 1)))
        question = (
            f"{'see my '[: before % 7]}{'see my ' * (before // 7)}\n{secret.line} please, and say what it is for."
        )
        if not MADE.readable(secret, "open", redactor.redact(question).text):
            count -= 1
            yield secret, question


WORDS = ("content", "text", "input", "output", "answer", "question", "prompt", "error", "task", "thought", "message")
CUTS = (60, 80, 200, 300, 500, 2000)


class Planter:
    """Puts a secret across a place where something is cut into every string of a log that holds words."""

    def __init__(self, seed: str) -> None:
        self.all: list[Any] = []
        self._rng = random.Random(seed)
        self._kinds = [kind for kind in MADE.KINDS if "\n" not in MADE.KINDS[kind](random.Random(0)).line]

    def words(self) -> str:
        """Words with a secret that a cut goes through."""
        rng = self._rng
        secret = MADE.KINDS[rng.choice(self._kinds)](rng)
        self.all.append(secret)
        before = rng.choice(CUTS) - secret.line.index(secret.core) - rng.randint(1, min(55, len(secret.core) - 1))
        return f"{'see my ' * (max(0, before) // 7)}{secret.line} and go on with many more words"

    def into(self, value: Any, name: str = "") -> Any:
        """The document with secrets in it."""
        if isinstance(value, dict):
            return {key: self.into(inner, key) for key, inner in value.items()}
        if isinstance(value, list):
            return [self.into(inner, name) for inner in value]
        return self.words() if isinstance(value, str) and (" " in value or name in WORDS) else value


def everything(folder: Path) -> str:
    """Every name and byte below a folder, ledgers unpacked."""
    files = [p for p in sorted(folder.rglob("*")) if p.is_file()]
    return "\n".join(f"{p.name}\n{unpack(p.name, p.read_bytes()).decode('latin-1')}" for p in files)


def test_a_task_that_nobody_named_is_named_by_redacted_words(tmp_path: Path, keys: Keyring) -> None:
    secrets = list(planted(100, seed=28))
    lines = [{"messages": [{"role": "user", "content": q}, {"role": "assistant", "content": "no"}]} for _, q in secrets]
    (tmp_path / "chat.jsonl").write_text("\n".join(map(json.dumps, lines)))
    home = Home(LocalFiles(tmp_path / "home"), keys)
    done = import_logs(tmp_path / "chat.jsonl", home=home, run="r")
    assert done.traces == 100
    export("r", to="atif", out=tmp_path / "out.json", home=home)
    shown = done.to_json() + show("r", home=home).to_json() + (tmp_path / "out.json").read_text()
    kept = everything(tmp_path / "home")
    names = [entry.head.task for entry in home.resolve("r").entries]
    assert all(len(name) < 80 for name in names)
    assert [s.kind for s, _ in secrets if any(MADE.readable(s, "open", text) for text in (shown, kept, *names))] == []
    assert import_logs(tmp_path / "chat.jsonl", home=home, run="r").unchanged == 100


@pytest.mark.parametrize("format", [name for name in SAMPLES if name != "trail"])
def test_no_reader_keeps_a_part_of_a_secret(format: str, tmp_path: Path, keys: Keyring) -> None:
    for number in range(3):
        plant = Planter(f"{format} {number}")
        try:
            data = json.dumps(plant.into(json.loads(SAMPLES[format]))).encode()
        except ValueError:  # lines
            data = b"\n".join(json.dumps(plant.into(json.loads(x))).encode() for x in SAMPLES[format].splitlines() if x)
        file, folder = tmp_path / f"{number}.json", tmp_path / f"home-{number}"
        file.write_bytes(data)
        home = Home(LocalFiles(folder), keys)
        done = import_logs(file, home=home, run="r", format=format)
        assert done.traces
        run = home.resolve("r")
        traces = [run.trace(entry) for entry in run.entries]
        kept = [repr((t.head, t.spans, t.labels, t.texts)) for t in traces]
        seen = "\n".join([everything(folder), done.to_json(), show("r", home=home).to_json(), *kept])
        assert plant.all
        assert [secret.kind for secret in plant.all if MADE.readable(secret, "open", seen)] == []


@pytest.mark.parametrize("size", [30, 60, 200])
def test_what_is_cut_before_it_is_redacted_holds_a_secret_whole_or_not_at_all(size: int) -> None:
    redactor = Redactor(KEY)
    for secret, question in planted(200, seed=size):
        for text in (cut_whole(question, size), end_whole(question, size)):
            assert len(text) <= size
            assert not MADE.readable(secret, "open", redactor.redact(text).text), (secret.kind, text)


def test_sealed_payloads_lend_no_words_to_names(tmp_path: Path, keys: Keyring) -> None:
    keys.new()
    home = Home(LocalFiles(tmp_path / "home"), keys)
    short, long = (
        "Mrs Quimbly has gout",
        "Mrs Quimbly has gout, and asks whether the tablets that she takes are to blame for it",
    )
    lines = [
        {"messages": [{"role": "user", "content": q}, {"role": "assistant", "content": "no"}]} for q in (short, long)
    ]
    (tmp_path / "chat.jsonl").write_text("\n".join(map(json.dumps, [*lines, lines[0]])))
    import_logs(tmp_path / "chat.jsonl", home=home, run="r")
    entries = home.resolve("r").entries
    assert sorted(e.head.attempt for e in entries) == [0, 0, 1]  # equal questions are still repeats of one task
    assert len({e.head.task for e in entries}) == 2
    assert "Quimbly" not in everything(tmp_path / "home")


@pytest.mark.parametrize("disguise", list(MADE.DISGUISES))
def test_a_name_made_of_a_long_disguise_shows_none_of_it(disguise: str) -> None:
    redactor = Redactor(KEY)
    for kind in MADE.KINDS:
        rng = random.Random(f"{kind} {disguise}")
        secret = MADE.KINDS[kind](rng)
        words = MADE.DISGUISES[disguise].on(f"{secret.line}\n" + "and many more words\n" * 200, rng)
        assert not MADE.readable(secret, disguise, name_of_words(words, redactor, sealed=False)), (kind, words[:90])


def test_the_hash_in_a_name_cannot_be_guessed_without_the_key() -> None:
    words = "ring the bell " * 20
    one, two = (name_of_words(words, Redactor(key), sealed=False) for key in (b"one", b"two"))
    assert one[:60] == two[:60] == words[:60]
    assert one != two


def test_a_live_run_keeps_and_shows_no_part_of_a_secret(
    tmp_path: Path, keys: Keyring, capfd: pytest.CaptureFixture[str]
) -> None:
    plant = Planter("live")
    prompts, said = [plant.words() for _ in range(12)], [plant.words() for _ in range(24)]
    checks = (Check(kind="contains", settings={"expected": "zzz"}), Check(kind="equals"))
    suite = Suite(
        name="s",
        tasks=tuple(Task(id=f"t{i}", prompt=p, expected=plant.words(), checks=checks) for i, p in enumerate(prompts)),
    )

    def agent(task: Any) -> str:
        number = int(task.id[1:])
        if number % 4 == 0:
            raise RuntimeError(said[number])
        if number % 4 == 1:
            raise SandboxFault(said[number])
        if number % 4 == 2:
            raise ValueError(f"see\n{said[number]}\n{said[number + 12]}")
        return said[number]

    home = Home(LocalFiles(tmp_path / "home"), keys)
    done = run(suite, agent, home=home, run="r")
    report("r", tmp_path / "r.html", home=home)
    stored = home.resolve("r")
    kept = [repr((stored.head(e), (t := stored.trace(e)).spans, t.labels, t.texts)) for e in stored.entries]
    shown = [done.to_json(), show("r", home=home).to_json(), why("r", home=home).to_json(), *capfd.readouterr()]
    seen = "\n".join([everything(tmp_path / "home"), (tmp_path / "r.html").read_text(), *kept, *shown])
    assert "[REDACTED:" in seen
    assert [secret.kind for secret in plant.all if MADE.readable(secret, "open", seen)] == []


@pytest.mark.parametrize("seal", [False, True])
def test_sessions_of_a_gateway_are_named_by_redacted_words(tmp_path: Path, keys: Keyring, seal: bool) -> None:
    if seal:
        keys.new()
    plant = Planter("gateway")
    home = Home(LocalFiles(tmp_path / "home"), keys)
    store = SessionStore(home, "live", "gateway")
    given = [plant.words() for _ in range(30)]
    for words in given:
        session = store.session(store.writer.named(words))
        session.trace.add(Draft(kind="user", name="user", output=(Message("user", (Text(words),)),)))
        store.end(session)
        other = store.session(words)  # a client that calls itself so
        other.trace.add(Draft(kind="user", name="user"))
        store.end(other)
    store.close()
    entries = home.resolve("live").entries
    assert len(entries) == 60
    seen = everything(tmp_path / "home") + repr([entry.head for entry in entries])
    assert [secret.kind for secret in plant.all if MADE.readable(secret, "open", seen)] == []
