"""The map of an exploration: every point with its rate, interval and verdict; on the screen, or as a file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from ethogram.arrays import arrow_table
from ethogram.display import Presentation
from ethogram.errors import BadUsage
from ethogram.result import Result
from ethogram.store import Home

from .certificate import Certificate, certificate
from .exploration import RoundMetrics
from .posterior import KnownMap, PointRow
from .tube import established


class ExplorationMap(Result, kw_only=True):
    """All points of an exploration, with uncertainty."""

    presentation: ClassVar[Presentation] = Presentation(
        headline="{run}: {safe} points safe, {unsafe} unsafe, {undecided} undecided",
        facts=("world", "strategy", "tau", "zone", "level", "episodes", "established"),
    )

    run: str
    world: str
    strategy: str
    parameters: dict[str, list[Any]]
    tau: float
    zone: float
    level: float
    episodes: int
    safe: int
    unsafe: int
    undecided: int
    certificate: Certificate
    established: str
    metrics: RoundMetrics
    points: list[PointRow]

    @property
    def claims(self) -> tuple[str, ...]:
        """What is established, one sentence each."""
        return established(self.metrics.certainty, self.certificate, len(self.points), self.tau)

    def rows(self) -> list[dict[str, Any]]:
        """One row per point, flat."""
        return [_flat(p) for p in self.points]


class MapFile(Result, kw_only=True):
    """Where a map was written."""

    run: str
    file: str
    format: str
    points: int


def map_exploration(run: str = "latest", *, home: Home | str | None = None) -> ExplorationMap:
    """The map of an exploration: every point with its rate, interval and verdict."""
    known = KnownMap(run, home)
    last = known.done[-1]
    proven = certificate(known.posterior, known.tally, known.problem, known.metadata.level)
    return ExplorationMap(
        run=known.run,
        world=known.metadata.world,
        strategy=known.metadata.strategy,
        parameters={p.name: list(p.values) for p in known.grid.parameters},
        tau=known.metadata.tau,
        zone=known.metadata.zone,
        level=known.metadata.level,
        episodes=known.tally.spent,
        safe=int(known.sets.safe.sum()),
        unsafe=int(known.sets.unsafe.sum()),
        undecided=int(known.sets.undecided.sum()),
        certificate=proven,
        established=" ".join(established(last.certainty, proven, known.problem.points, known.metadata.tau)),
        metrics=last,
        points=[known.point(i) for i in range(known.problem.points)],
    )


def export_exploration(file: str | Path, run: str = "latest", *, home: Home | str | None = None) -> MapFile:
    """Write the map as CSV or Parquet, by the file's ending."""
    path = Path(file)
    kind = path.suffix.lower().lstrip(".")
    if kind not in ("csv", "parquet"):
        raise BadUsage(f"{path.name!r} ends neither in .csv nor in .parquet; name the format by the ending")
    if path.exists():
        raise BadUsage(f"{path} exists already; remove it, or choose another name")
    found = map_exploration(run, home=home)
    rows = found.rows()
    if kind == "csv":
        import csv

        with path.open("w", newline="", encoding="utf-8") as out:
            writer = csv.DictWriter(out, list(rows[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
    else:
        import pyarrow.parquet as pq

        pq.write_table(_arrow(rows), path)
    return MapFile(run=found.run, file=str(path), format=kind, points=len(rows))


def _arrow(rows: Sequence[dict[str, Any]]) -> Any:
    import pyarrow as pa

    kinds = {bool: pa.bool_(), int: pa.int64(), float: pa.float64(), str: pa.string()}
    fields = []
    for name in rows[0]:
        seen = {type(row[name]) for row in rows if row[name] is not None}
        kind = float if seen == {int, float} else next(iter(seen)) if len(seen) == 1 else str
        fields.append(pa.field(name, kinds.get(kind, pa.string())))
    columns = {f.name: [str(r[f.name]) if f.type == pa.string() else r[f.name] for r in rows] for f in fields}
    return arrow_table(columns, pa.schema(fields))


def _flat(point: PointRow) -> dict[str, Any]:
    return {
        "point": point.point,
        **point.settings,
        "episodes": point.episodes,
        "failures": point.failures,
        "rate": point.rate.value,
        "low": point.rate.low,
        "high": point.rate.high,
        "unsafe": point.unsafe,
        "verdict": point.verdict,
    }
