"""The golden set beside its suite: `golden.json` in a folder, `NAME.golden.json` beside a file. JSON, for anybody."""

from __future__ import annotations

import json
import os
from pathlib import Path

import msgspec

from ethogram.errors import BadInput
from ethogram.plans.golden import GoldenMark, GoldenSet, changes_since, history_problem
from ethogram.plans.task import Suite

FILE = "golden.json"
MOST_BYTES = 64 << 20


def golden_path(place: Path) -> Path:
    """Where the golden set of a suite lies: in its folder, or beside its file."""
    return place / FILE if place.is_dir() else place.with_name(f"{place.stem}.{FILE}")


def read_golden(path: Path) -> GoldenSet | None:
    """The golden set of a file, None where there is none; raises `BadInput` for one that cannot be trusted."""
    if not path.is_file():
        return None
    try:
        if path.stat().st_size > MOST_BYTES:
            raise BadInput(f"{path.name} has more than {MOST_BYTES >> 20} MB; it is not a golden set", where=str(path))
        found = msgspec.json.decode(path.read_bytes(), type=GoldenSet)
    except OSError as error:
        raise BadInput(f"{path.name} cannot be read: {error.strerror}", where=str(path)) from None
    except msgspec.MsgspecError as error:
        raise BadInput(
            f"{path.name} is not a golden set ({error}); restore it from your repository", where=str(path)
        ) from None
    problem = history_problem(found)
    if problem is not None:
        raise BadInput(f"{path.name} was edited by hand: {problem}; restore it from your repository", where=str(path))
    return found


def write_golden(path: Path, golden: GoldenSet) -> None:
    """Write a golden set in one step, so that no reader sees half of it."""
    text = json.dumps(msgspec.to_builtins(golden), indent=2, ensure_ascii=False)
    replace_text(path, text + "\n")


def replace_text(path: Path, text: str) -> None:
    """Write a file in one step; raises `BadInput` where that cannot be done."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        draft.write_text(text, encoding="utf-8", newline="")
        draft.replace(path)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise BadInput(f"{path} cannot be written: {error.strerror}", where=str(path)) from None


def golden_mark(golden: GoldenSet | None, suite: Suite) -> GoldenMark | None:
    """What a run keeps of the golden set of its suite; None where the suite is not frozen."""
    if golden is None:
        return None
    changes = changes_since(golden, suite)
    return GoldenMark(version=golden.version, unrecorded=changes if changes else None)
