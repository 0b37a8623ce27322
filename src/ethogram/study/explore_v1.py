"""Files of an exploration, as the first version laid them out, and the order in which they appear.

A round is complete if and only if its `metrics.json` exists. Outcomes are committed to the run's ledger a target at a
time, so a round that was cut short goes on where it stood, and everything else (results, posteriors, metrics, summary)
is derived from them anew: nothing is counted twice, whatever moment a crash chose.
"""

from __future__ import annotations

import io
import time
from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Any, Protocol

import msgspec
import numpy as np

from ethogram.decide.explore import Proposal, Tally
from ethogram.errors import BadUsage
from ethogram.lab.explore.bought import PointOutcomes
from ethogram.lab.explore.exploration import (
    GRID_JSON,
    STATE,
    SUMMARY,
    Metadata,
    RoundMetrics,
    Rounds,
    csv_value,
    tally_digest,
)
from ethogram.plan.grid import Grid
from ethogram.store import manifest

SEMANTICS = "Beta over p_fail; alpha=fails+1, beta=successes+1"


class Rows(Protocol):
    """Makes the lines of `agent_results.csv` for what was bought at a point."""

    @property
    def columns(self) -> Sequence[str]:
        """The names of the columns."""
        ...

    def __call__(self, identity: str, bought: PointOutcomes) -> Iterable[str]:
        """One line per episode."""
        ...


def derived_uuid(seed: int) -> str:
    """The run's uuid when none is given: a seed repeats a run."""
    import uuid

    return str(uuid.UUID(bytes=blake2b(f"explore:{seed}".encode(), digest_size=16).digest(), version=4))


def round_rng(run_uuid: str, number: int) -> np.random.Generator:
    """The generator of a strategy in a round."""
    return np.random.default_rng(
        int.from_bytes(blake2b(f"{run_uuid}:{number}:strategy".encode(), digest_size=8).digest(), "little")
    )


class RoundsWriter(Rounds):
    """The rounds of an exploration, to be written in their order."""

    def begin(self, metadata: Metadata, grid: Grid) -> None:
        """Write the grid, then what the run is."""
        first = {} if self._files.exists(f"{self._path}/grid.npz") else {"grid.npz": grid_bytes(grid)}
        self._publish(first | {"run_metadata.json": _pretty(metadata)})

    def start(self, pre: dict[str, Any], plan: dict[str, Any]) -> None:
        """A round begins."""
        folder = f"rounds/{pre['round_id']}"
        begun = _pretty({**pre, "timestamp": _now()})
        self._publish({f"{folder}/round_pre.json": begun, f"{folder}/active_sampling_plan.json": _pretty(plan)})

    def commit(
        self, metrics: RoundMetrics, results: bytes, tally: Tally, grid_version: str, rounds: Sequence[RoundMetrics]
    ) -> None:
        """A round ends: results, posteriors, then the commit; after it the summary, which can be derived again."""
        folder = f"rounds/{metrics.round_id}"
        posteriors = posterior_bytes(tally, metrics.run_uuid, grid_version)
        self._publish(
            {
                f"{folder}/agent_results.csv": results,
                "beta_posteriors.npz": posteriors,
                f"{folder}/metrics.json": _pretty(metrics),
            }
        )
        self.conclude(rounds)

    def conclude(self, committed: Sequence[RoundMetrics]) -> None:
        """What follows the commit of the last round; a crash in between is mended here."""
        text = summary_csv(committed)
        if self.text("summary.csv") != text:
            self._publish({"summary.csv": text})
        last = committed[-1]
        name = f"rounds/{last.round_id}/round_post.json"
        if not self._files.exists(f"{self._path}/{name}"):
            post = {"round_id": last.round_id, "completed_at": _now(), "status": last.status}
            self._publish({name: _pretty({**post, "tube_var_sum": last.tube.tube_var_sum})})

    def keep_state(self, seen: int, tally: Tally, state: Mapping[str, Any]) -> None:
        """Keep what the strategy's last look began from: the rounds it had seen, and the tally that they came to."""
        if state and seen:
            known = {"seen": np.array(seen), "digest": np.array(tally_digest(tally)), **state}
            self._files.publish(f"{self._path}/{STATE}", _npz_bytes(known))

    def publish_posteriors(self, tally: Tally, run_uuid: str, grid_version: str) -> None:
        """Posteriors before the first round, or after they were moved away."""
        if not self._files.exists(f"{self._path}/beta_posteriors.npz"):
            self._publish({"beta_posteriors.npz": posterior_bytes(tally, run_uuid, grid_version)})

    def _publish(self, contents: Mapping[str, bytes]) -> None:
        """Files in this order, under hashes that `verify` compares."""
        manifest.publish(self._files, self._path, contents)


def grid_bytes(grid: Grid) -> bytes:
    """`grid.npz`: an array of values per parameter, one entry per point, and the grid itself as JSON."""
    levels = grid.levels()
    arrays: dict[str, Any] = {p.name: np.asarray(p.values)[levels[:, d]] for d, p in enumerate(grid.parameters)}
    arrays.update(grid_version=np.array(grid.version), n_points=np.array(len(grid)))
    arrays.update(grid_digest=np.array(grid.digest), **{GRID_JSON: np.array(msgspec.json.encode(grid).decode())})
    return _npz_bytes(arrays)


def posterior_bytes(tally: Tally, run_uuid: str, grid_version: str) -> bytes:
    """`beta_posteriors.npz`."""
    arrays = {
        "alpha": tally.fails + 1,
        "beta": tally.n - tally.fails + 1,
        "grid_version": np.array(grid_version),
        "run_uuid": np.array(run_uuid),
        "posterior_semantics": np.array(SEMANTICS),
    }
    return _npz_bytes(arrays)


def summary_csv(rounds: Sequence[RoundMetrics]) -> bytes:
    """`summary.csv`: one row per complete round."""
    lines = [",".join(SUMMARY), *(",".join(csv_value(value(m)) for value in SUMMARY.values()) for m in rounds)]
    return ("\n".join(lines) + "\n").encode()


def results_csv(identity: str, rows: Rows, part: Iterable[PointOutcomes]) -> bytes:
    """`agent_results.csv`: one row per episode, targets in the order of the plan."""
    lines = [",".join(rows.columns)]
    for bought in part:
        lines.extend(rows(identity, bought))
    return ("\n".join(lines) + "\n").encode()


def plan_record(identity: str, proposal: Proposal, scores: Mapping[str, Any]) -> dict[str, Any]:
    """`active_sampling_plan.json`."""
    return {
        "round_id": identity,
        "selected": proposal.points.tolist(),
        "episodes": proposal.episodes.tolist(),
        "K": len(proposal.points),
        "total_episodes": proposal.budget,
        **scores,
    }


def check_same(old: Metadata, new: Metadata, name: str, uuid_given: bool) -> None:
    """Refuse to continue an exploration as another one."""
    if uuid_given and old.run_uuid != new.run_uuid:
        raise BadUsage(
            f"{name!r} is the run {old.run_uuid}, not {new.run_uuid}; leave --run-uuid out to go on with it, or choose "
            "another directory"
        )
    if old.grid_digest != new.grid_digest:
        raise BadUsage(
            f"the grid has changed since {name!r} began; restore it, or begin a new exploration in another directory"
        )
    for field in ("world", "synthetic", "strategy", "tau", "zone", "settings"):
        was, now = getattr(old, field), getattr(new, field)
        if was != now:
            raise BadUsage(f"{name!r} was begun with {field} {was!r}, not {now!r}; go on as it was, or begin a new one")


def _npz_bytes(arrays: Mapping[str, Any]) -> bytes:
    out = io.BytesIO()
    np.savez(out, **arrays)
    return out.getvalue()


def _pretty(value: Any) -> bytes:
    return msgspec.json.format(msgspec.json.encode(value)) + b"\n"


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
