"""The trajectories of a run as points, for pictures: two principal components, and every standardised dimension."""

from __future__ import annotations

from typing import Any

import msgspec

from ethogram.reading.outcomes import chosen_entries
from ethogram.reading.samples import sampled_run
from ethogram.result import Result
from ethogram.store import Home, Run
from ethogram.traces import SUCCESS_AT

from .field import Field
from .files import FieldOptions, measure_traces, usable_names
from .projection import project


class CloudPoint(msgspec.Struct, frozen=True, kw_only=True):
    """One trajectory: where it lies in the plane, and its standardised dimensions, each task's mean taken out."""

    trace_id: str
    task: str
    outcome: str
    x: float
    y: float
    values: dict[str, float]


class Cloud(Result, kw_only=True):
    """A field as points; `explained` are the shares of the variance that the two axes carry."""

    run: str
    explained: list[float]
    dimensions: list[str]
    points: list[CloudPoint]

    def rows(self) -> list[dict[str, Any]]:
        """One row per trajectory."""
        return [{k: v for k, v in msgspec.to_builtins(p).items() if k != "values"} | p.values for p in self.points]

    def thinned(self, most: int) -> Cloud:
        """The cloud with at most this many points: of every outcome and every task about the same share."""
        held = len(self.points)
        if held <= most:
            return self
        alike = sorted(range(held), key=lambda i: (self.points[i].outcome, self.points[i].task))
        kept = sorted(alike[(2 * n + 1) * held // (2 * most)] for n in range(most))
        return msgspec.structs.replace(self, points=[self.points[i] for i in kept])


def field_cloud(
    run: str | Run = "latest",
    *,
    home: Home | str | None = None,
    field: str | type[Field] | None = None,
    reading: str = "steps",
    preset: str = "standard",
    condition: str | None = None,
) -> Cloud:
    """The points of a run's field, or of one's own `field`."""
    found, how = sampled_run(run, home), FieldOptions(field=field, reading=reading, preset=preset)
    loaded = measure_traces([found], [chosen_entries(found, condition, None)], how)
    names = [] if field is not None else usable_names([loaded], how, None)[0]
    whole = loaded.field(names)
    flat = project(whole)
    points = [
        CloudPoint(
            trace_id=entry.head.trace_id,
            task=entry.head.task,
            outcome="success" if whole.outcomes[i] >= SUCCESS_AT else "failure",
            x=float(flat.places[i, 0]) if flat.places.shape[1] > 0 else 0.0,
            y=float(flat.places[i, 1]) if flat.places.shape[1] > 1 else 0.0,
            values={n: float(v) for n, v in zip(flat.names, flat.standard[i], strict=True)},
        )
        for i, entry in enumerate(loaded.entries)
    ]
    shares = [float(x) for x in flat.explained]
    return Cloud(run=found.name, explained=[*shares, 0.0, 0.0][:2], dimensions=flat.names, points=points)
