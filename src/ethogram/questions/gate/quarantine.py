"""The quarantine list: tasks that do not count yet, and notes about them."""

from __future__ import annotations

import datetime
from pathlib import Path

import msgspec

from ethogram.errors import BadInput, first_line
from ethogram.measures.outcomes import Outcomes


class Quarantined(msgspec.Struct, frozen=True, kw_only=True):
    """A task that does not count towards the verdict until a date; from then on it does again."""

    task: str
    until: datetime.date
    reason: str
    expired: bool = False


def read_quarantine(path: str | Path, today: datetime.date | None = None) -> list[Quarantined]:
    """The quarantine list: YAML or JSON, each entry with `task`, `until` (a date) and `reason`."""
    import yaml

    place = Path(path)
    try:
        listed = yaml.safe_load(place.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadInput(f"the quarantine list {place} cannot be read: {error.strerror}", where=str(place)) from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise BadInput(f"the quarantine list {place} is not YAML: {first_line(error)}", where=str(place)) from None
    if not isinstance(listed, list):
        raise BadInput(
            f"the quarantine list {place} must be a list of entries with task, until and reason", where=str(place)
        )
    now = today or datetime.datetime.now(datetime.UTC).date()
    found = []
    for i, entry in enumerate(listed, start=1):
        try:
            if isinstance(entry, dict) and isinstance(entry.get("task"), int):
                entry = {**entry, "task": str(entry["task"])}  # tasks of many suites are numbers
            one = msgspec.convert(entry, Quarantined, strict=False)
        except msgspec.ValidationError as error:
            raise BadInput(
                f"entry {i} of {place}: {error}; write task, until (2026-12-31) and reason", where=f"{place}, entry {i}"
            ) from None
        found.append(msgspec.structs.replace(one, expired=one.until < now))
    return found


def about_quarantine(resting: list[Quarantined], outcomes: tuple[Outcomes, Outcomes], counted: int) -> list[str]:
    """What people should know of the list: that it names strangers, or most of the suite."""
    known = {t for o in outcomes for t in o.tasks}
    strange = sorted({q.task for q in resting} - known)
    told = [f"the quarantine list names {', '.join(strange[:5])}, which no run knows"] if strange else []
    away = len({q.task for q in resting if not q.expired} & known)
    share = away / max(counted + away, 1)
    if share > 0.2:
        told.append(f"{share:.0%} of the tasks are in quarantine: the verdict is only about the rest")
    return told
