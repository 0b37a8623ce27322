"""Files of an exploration, as the first version laid them out, and the order in which they appear.

They are written from the run's ledger, which holds outcomes, and documents that no outcomes tell: what was begun, the
plan of each round, its metrics. Outcomes are committed a target at a time, so a round that was cut short goes on where
it stood; it is complete when its metrics are committed. Whatever moment a crash chose, nothing is counted twice, and
files that are missing, then or later, are written again.
"""

from __future__ import annotations

import io
import time
from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Any, Protocol

import msgspec
import numpy as np

from ethogram.errors import BadUsage
from ethogram.store import Run, RunWriter, manifest
from ethogram.store.lake import DOCUMENTS

from .documents import (
    GRID,
    GRID_JSON,
    METADATA,
    METRICS,
    PLAN,
    POST,
    POSTERIORS,
    PRE,
    RESULTS,
    ROUND_FILES,
    SUMMARY_CSV,
    compact_json,
    document_line,
    file_bytes,
)
from .exploration import ROUNDS, STATE, SUMMARY, Metadata, RoundMetrics, Rounds, csv_value, round_id, tally_digest
from .grid import Grid
from .point_outcomes import PointOutcomes
from .problem import Proposal, Tally

SEMANTICS = "Beta over p_fail; alpha=fails+1, beta=successes+1"


class ResultRows(Protocol):
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
    """The rounds of an exploration, to be committed to its ledger and written as files in their order."""

    def __init__(self, run: Run, writer: RunWriter) -> None:
        """`writer` commits documents to the ledger of the run."""
        super().__init__(run)
        self._writer = writer

    def begin(self, metadata: Metadata, grid: Grid) -> None:
        """Note what the run is; write the grid, then the metadata."""
        changed = metadata != self.metadata()
        if changed:
            self._note({METADATA: msgspec.json.encode(metadata)})
        else:
            self._adopt([METADATA])
        missing = {GRID: grid_bytes(grid)} if self.text(GRID) is None else {}
        if changed or self.text(METADATA) is None:
            missing[METADATA] = self._file(METADATA)
        self._publish(missing)

    def start(self, metadata: Metadata, number: int, proposal: Proposal) -> None:
        """A round begins, or goes on as it was planned; its plan is committed with the next commit of the writer."""
        pre, plan = self._documents_of(number, metadata.run_uuid, (PRE, PLAN))
        planned = msgspec.json.encode(plan_record(metadata, number, proposal))
        if pre not in self.documents or self.documents.get(plan) != planned:
            self._note({pre: msgspec.json.encode(pre_record(metadata, number, _now())), plan: planned})
        self._publish({name: data for name in (pre, plan) if self.text(name) != (data := self._file(name))})

    def commit(
        self, metrics: RoundMetrics, results: bytes, tally: Tally, grid_version: str, rounds: Sequence[RoundMetrics]
    ) -> None:
        """A round ends: results, posteriors, then the commit; after it what shows that it is complete."""
        folder = f"{ROUNDS}/{metrics.round_id}"
        of_metrics, post = f"{folder}/{METRICS}", f"{folder}/{POST}"
        documents = {of_metrics: metrics, post: post_record(metrics, _now())}
        known = {name: msgspec.json.encode(document) for name, document in documents.items()}
        posteriors = posterior_bytes(tally, metrics.run_uuid, grid_version)
        first = {f"{folder}/{RESULTS}": results, POSTERIORS: posteriors}
        last = {
            of_metrics: file_bytes(known[of_metrics]),
            SUMMARY_CSV: summary_csv(rounds),
            post: file_bytes(known[post]),
        }
        manifest.record(self._files, self._path, first | last)
        self._write(first)
        self._note(known)
        self._writer.commit()
        self._write(last)

    def restore(
        self,
        metadata: Metadata,
        rounds: Sequence[RoundMetrics],
        parts: Iterable[Sequence[PointOutcomes]],
        rows: ResultRows,
    ) -> None:
        """Write files that are missing from the ledger, and results that were scored anew since they were written.

        What only files of an earlier version hold is committed.
        """
        rescored = self._may_be_rescored()
        for metrics, part in zip(rounds, parts, strict=True):
            number, folder = metrics.round_num, f"{ROUNDS}/{metrics.round_id}"
            pre, plan, of_metrics, post = self._documents_of(number, metadata.run_uuid, (PRE, PLAN, METRICS, POST))
            self._adopt([pre, plan, of_metrics, post])
            unknown = {pre: pre_record(metadata, number, None), post: post_record(metrics, None)}
            self._note({n: msgspec.json.encode(d) for n, d in unknown.items() if n not in self.documents})
            there = self._files.names(f"{self._path}/{folder}")
            missing = {f"{folder}/{name}" for name in ROUND_FILES if name not in there}
            results = f"{folder}/{RESULTS}"
            contents = {name: self._file(name) for name in sorted(missing - {results})}
            if results in missing or results in rescored:
                contents[results] = results_csv(metrics.round_id, rows, part)
            self._publish({n: data for n, data in contents.items() if n in missing or self.text(n) != data})
        begun = self._documents_of(len(rounds) + 1, metadata.run_uuid, (PRE, PLAN))
        self._publish({n: self._file(n) for n in begun if n in self.documents and self.text(n) is None})
        if rounds and self.text(SUMMARY_CSV) != (text := summary_csv(rounds)):
            self._publish({SUMMARY_CSV: text})
        if rounds:
            self._writer.commit()

    def keep_state(self, seen: int, tally: Tally, state: Mapping[str, Any]) -> None:
        """Keep what the strategy's last look began from: the rounds it had seen, and the tally that they came to."""
        if state and seen:
            known = {"seen": np.array(seen), "digest": np.array(tally_digest(tally)), **state}
            self._files.publish(f"{self._path}/{STATE}", _npz_bytes(known))

    def publish_posteriors(self, tally: Tally, run_uuid: str, grid_version: str) -> None:
        """Posteriors before the first round, after they were moved away, or after outcomes were scored anew."""
        self._publish({POSTERIORS: posterior_bytes(tally, run_uuid, grid_version)})

    def _may_be_rescored(self) -> set[str]:
        """Files of results whose outcomes may have changed since they were written: never those of batches.

        A file that is not as it was written is left as it is, for `verify` to tell.
        """
        if not self.run.entries:
            return set()
        listed = manifest.read_manifest(self._files, self._path)
        names = [name for name in listed.files if name.endswith(f"/{RESULTS}")]
        return {n for n in names if (data := self.text(n)) is not None and listed.lists(n, data)}

    def settle(self) -> None:
        """The session ends: whatever is missing from now on was lost."""
        manifest.settle_manifest(self._files, self._path)

    def _documents_of(self, number: int, run_uuid: str, names: Iterable[str]) -> list[str]:
        """Names of documents of a round."""
        return [f"{ROUNDS}/{round_id(number, run_uuid)}/{name}" for name in names]

    def _note(self, documents: Mapping[str, bytes]) -> None:
        """Documents for the next commit of the writer."""
        if documents:
            self._writer.note(DOCUMENTS, [document_line(name, content) for name, content in documents.items()])
            self.documents.update(documents)

    def _adopt(self, names: Iterable[str]) -> None:
        """Note documents that an earlier version kept in files only."""
        for name in names:
            data = self.text(name) if name not in self.documents else None
            if data is not None and (document := compact_json(data)) is not None:
                self._note({name: document})

    def _file(self, name: str) -> bytes:
        return file_bytes(self.documents[name])

    def _publish(self, contents: Mapping[str, bytes]) -> None:
        """Files in this order, under hashes that `verify` compares."""
        if contents:
            manifest.record(self._files, self._path, contents)
            self._write(contents)

    def _write(self, contents: Mapping[str, bytes]) -> None:
        for name, data in contents.items():
            self._files.publish(f"{self._path}/{name}", data)


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


def results_csv(identity: str, rows: ResultRows, part: Iterable[PointOutcomes]) -> bytes:
    """`agent_results.csv`: one row per episode, targets in the order of the plan."""
    lines = [",".join(rows.columns)]
    for bought in part:
        lines.extend(rows(identity, bought))
    return ("\n".join(lines) + "\n").encode()


def round_seed(metadata: Metadata, number: int) -> int:
    """The seed that is recorded for a round; those of its episodes come from the uuid."""
    return metadata.base_seed + (number - 1 if metadata.seed_mode == "increment" else 0)


def pre_record(metadata: Metadata, number: int, timestamp: str | None) -> dict[str, Any]:
    """`round_pre.json`; nobody knows when a round began whose file an earlier version wrote and somebody lost."""
    return {
        "round_id": round_id(number, metadata.run_uuid),
        "round_num": number,
        "run_uuid": metadata.run_uuid,
        "seed": round_seed(metadata, number),
        "mode": metadata.mode,
        "use_synthetic": metadata.synthetic,
        "timestamp": timestamp,
    }


def plan_record(metadata: Metadata, number: int, proposal: Proposal) -> dict[str, Any]:
    """`active_sampling_plan.json`."""
    return {
        "round_id": round_id(number, metadata.run_uuid),
        "selected": proposal.points.tolist(),
        "episodes": proposal.episodes.tolist(),
        "K": len(proposal.points),
        "total_episodes": proposal.budget,
        "strategy": metadata.strategy,
        "tau": metadata.tau,
        "seed": round_seed(metadata, number),
    }


def post_record(metrics: RoundMetrics, completed_at: str | None) -> dict[str, Any]:
    """`round_post.json`."""
    return {
        "round_id": metrics.round_id,
        "completed_at": completed_at,
        "status": metrics.status,
        "tube_var_sum": metrics.tube.tube_var_sum,
    }


def check_same(old: Metadata, new: Metadata, name: str, uuid_given: bool) -> None:
    """Refuse to continue an exploration as another one."""
    if uuid_given and old.run_uuid != new.run_uuid:
        raise BadUsage(
            f"{name!r} is the run {old.run_uuid}, not {new.run_uuid}; leave --run-uuid out to continue it, or choose "
            "another directory"
        )
    if old.grid_digest != new.grid_digest:
        raise BadUsage(
            f"the grid has changed since {name!r} began; restore it, or begin a new exploration in another directory"
        )
    for field in ("world", "synthetic", "strategy", "tau", "zone", "settings"):
        was, now = getattr(old, field), getattr(new, field)
        if was != now:
            raise BadUsage(f"{name!r} was begun with {field} {was!r}, not {now!r}; continue as it was, or start anew")


def _npz_bytes(arrays: Mapping[str, Any]) -> bytes:
    out = io.BytesIO()
    np.savez(out, **arrays)
    return out.getvalue()


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
