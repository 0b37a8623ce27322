"""A suite of one task from files and a question: how an experiment without a suite is run, kept and resumed."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import yaml

from ethogram.errors import BadUsage, EthogramError, NotFound
from ethogram.loading import named_object
from ethogram.suites.load import load_suite

TOOLS = "tools.py"
SCORER = "scorer.py"
SCORERS: dict[str, dict[str, Any]] = {
    "equality": {"kind": "equals"},
    "numeric": {"kind": "numeric"},
    "contains": {"kind": "contains"},
    "one-of": {"kind": "one_of"},
    "set": {"kind": "custom", "name": "set", "settings": {"function": f"{TOOLS}:same_set"}},
}
_LISTS = ("one-of", "set")


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked about which files, what is right, and who says so."""

    files: tuple[Path, ...]
    text: str
    expected: Any = None
    score: str = "equality"

    def check(self) -> None:
        """Refuse what could not be asked, before a byte is copied."""
        if not self.files or not self.text.strip():
            raise BadUsage("an experiment needs files and a question, or a suite")
        if self.score not in SCORERS and ":" not in self.score:
            raise NotFound.named("scorer", self.score, [*SCORERS, "file.py:function"])
        for file in self.files:
            if not file.is_file():
                raise NotFound(f"no file at {str(file)!r}", where=str(file))
        names = [f.name for f in self.files]
        twice = next((n for n in names if names.count(n) > 1), None)
        if twice is not None:
            raise BadUsage(f"two of the files are named {twice!r}; an episode's folder holds one of each")


def suite_of_files(place: Path, name: str, question: Question, *, begun: bool) -> Path:
    """The suite of an experiment, below `place`; one that a run was `begun` with is never changed."""
    question.check()
    folder, fresh = place / name, place / f".{name}-{os.getpid()}"
    shutil.rmtree(fresh, ignore_errors=True)
    try:
        _write(fresh, name, question)
        digest = load_suite(fresh).suite.digest
        if folder.is_dir():
            if _digest(folder) == digest:
                return folder
            if begun:
                raise BadUsage(
                    f"run {name!r} was begun with another question, other files or another scorer; repeat them to "
                    "continue, or choose another name"
                )
            shutil.rmtree(folder)  # what a dry run left
        fresh.rename(folder)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    return folder


def _digest(folder: Path) -> str | None:
    try:
        return load_suite(folder).suite.digest
    except EthogramError:
        return None


def _write(folder: Path, name: str, question: Question) -> None:
    (folder / "files").mkdir(parents=True)
    for file in question.files:
        shutil.copyfile(file, folder / "files" / file.name)
    shutil.copyfile(Path(__file__).with_name("experiment_tools.py"), folder / TOOLS)
    head = {"name": name, "tools": TOOLS}
    (folder / "suite.yaml").write_text(yaml.safe_dump(head), encoding="utf-8")
    task = _task(question, folder)
    (folder / "tasks.yaml").write_text(yaml.safe_dump([task], allow_unicode=True), encoding="utf-8")


def _task(question: Question, folder: Path) -> dict[str, Any]:
    names = [f.name for f in question.files]
    task: dict[str, Any] = {
        "id": re.sub(r"[^a-z0-9]+", "-", names[0].lower()).strip("-") or "task",
        "prompt": question.text,
        "files": {n: f"files/{n}" for n in names},
    }
    expected = _plain(question.expected)
    if expected is not None:
        task["expected"] = _listed(expected) if question.score in _LISTS else expected
    if question.score not in SCORERS:
        task["checks"] = [{"kind": "custom", "settings": {"function": _own_scorer(question.score, folder)}}]
    elif expected is not None:
        task["checks"] = [SCORERS[question.score]]
    return task


def _own_scorer(spec: str, folder: Path) -> str:
    """The user's function; a file of the user's becomes a file of the suite, so that a resume scores alike."""
    place, _, function = spec.rpartition(":")
    if place.endswith(".py"):
        if not Path(place).is_file():
            raise NotFound(f"no file at {place!r} for the scorer {spec!r}", where=place)
        shutil.copyfile(place, folder / SCORER)
        place = SCORER
    kept = f"{place}:{function}"
    try:
        found = named_object(kept, folder)
    except EthogramError:
        raise
    except (Exception, SystemExit) as error:
        raise BadUsage(
            f"the scorer {spec!r} cannot be loaded: {type(error).__name__}: {error}; it may import what is installed, "
            "but not what lies beside it"
        ) from None
    if not callable(found):
        raise BadUsage(f"the scorer {spec!r} is not a function of the answer and what is expected")
    return kept


def _plain(value: Any) -> Any:
    """An expected answer as YAML can hold it."""
    if isinstance(value, set | frozenset):
        return sorted((_plain(v) for v in value), key=str)
    if hasattr(value, "item") and hasattr(value, "dtype"):
        value = value.tolist()
    try:
        return msgspec.to_builtins(value)
    except (TypeError, NotImplementedError):
        raise BadUsage(
            f"an expected answer of type {type(value).__name__} cannot be kept; give text, a number or a list"
        ) from None


def _listed(expected: Any) -> Sequence[Any]:
    """Several answers from one text: JSON, or separated by commas."""
    if not isinstance(expected, str):
        return expected if isinstance(expected, list) else [expected]
    try:
        found = msgspec.json.decode(expected)
    except msgspec.DecodeError:
        found = None
    return found if isinstance(found, list) else [part.strip() for part in expected.split(",") if part.strip()]
