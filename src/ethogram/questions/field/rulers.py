"""A corridor from the successes of a stored run, without a file."""

from __future__ import annotations

from ethogram.reading.outcomes import chosen_entries
from ethogram.reading.samples import traced_run
from ethogram.store import Home, Run

from .corridor import Corridor
from .files import CorridorFile, FieldOptions, measure_traces, usable_names


def run_corridor(run: str | Run, *, preset: str = "standard", home: Home | str | None = None) -> CorridorFile:
    """What `field_of` takes as a corridor: the successes of a run. Raises `BadInput` where it has none."""
    found, how = traced_run(run, home, "field"), FieldOptions(preset=preset)
    loaded = measure_traces([found], [chosen_entries(found, None, None)], how)
    names, _ = usable_names([loaded], how, None)
    return CorridorFile(
        corridor=Corridor.of(loaded.field(names), name=found.name), field=None, preset=preset, reading=how.reading
    )
