"""Runs with a judge of known sensitivity and specificity, written with the store's own API."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

from ethogram.store import Home, Policy, Redactor
from ethogram.store.files import LocalFiles
from ethogram.store.rescore import append_outcomes
from ethogram.traces import Head, Label, Missing, Ref, Scored, Span, SpanId, episode_id, trace_id

REDACTOR = Redactor(b"tests", Policy(kinds=()))


class JudgedRun:
    """A stored run of `tasks` × `attempts` whose true answers and verdicts are known."""

    def __init__(self, folder: Path, name: str = "night", tasks: int = 40, attempts: int = 10, seed: int = 1,
                 rate: float = 0.7, sensitivity: float = 0.95, specificity: float = 0.85) -> None:  # fmt: skip
        rng = np.random.default_rng(seed)
        self.home = Home(LocalFiles(folder))
        self.name, n = name, tasks * attempts
        self.task = np.repeat(np.arange(tasks), attempts)
        rates = rng.beta(3 * rate, 3 * (1 - rate), tasks)
        self.truth = rng.random(n) < rates[self.task]
        right = rng.random(n) < np.where(self.truth, sensitivity, specificity)
        self.verdict = self.truth == right
        self.ids = [trace_id(name, str(i)) for i in range(n)]
        with self.home.create(name, "import").writer(REDACTOR, window=None) as writer:
            for i, tid in enumerate(self.ids):
                sink = writer.trace(tid)
                sink.span(Span(trace_id=tid, span_id=SpanId("s0"), seq=0, kind="model", name="chat", cost_usd=0.01))
                head = Head(trace_id=tid, episode=episode_id(name, str(i)), task=f"t{self.task[i]:02d}",
                            attempt=i % attempts, outcome=Missing("unscored"), meta={"part": "ab"[i % 2]})  # fmt: skip
                sink.finish(head, ())

    def add(self, labels: list[Label], outcomes: dict | None = None) -> None:
        append_outcomes(self.home.run(self.name), outcomes or {}, labels, REDACTOR)

    def judge(self, item: str = "rubric/termination", by: str = "model:small", version: str = "1",
              values: np.ndarray | None = None) -> JudgedRun:  # fmt: skip
        """Let the judge say what it says, or something else."""
        said = self.verdict if values is None else values
        self.add([
            Label(trace_id=t, name=item, value=bool(v), by=by, source="judge", version=version, why=Ref("so"))
            for t, v in zip(self.ids, said, strict=True)
        ])  # fmt: skip
        return self

    def score(self, item: str) -> JudgedRun:
        """Make a verdict the outcome, as `ethogram score --score` does."""
        said = zip(self.ids, self.verdict, strict=True)
        self.add([], {t: Scored(float(v), item) for t, v in said})
        return self

    def fill(self, sheet: Path, by: str = "ada", flips: float = 0.0, seed: int = 3) -> Path:
        """Fill in a sheet with the truth, as a person would who errs in a share of cases."""
        rng = np.random.default_rng(seed)
        with sheet.open(newline="") as stream:
            rows = list(csv.DictReader(stream))
        place = {t.removeprefix("b2:")[:12]: i for i, t in enumerate(self.ids)}
        for row in rows:
            row["value"] = str(bool(self.truth[place[row["trace"]]]) != (rng.random() < flips))
            row["by"] = by
        with sheet.open("w", newline="") as stream:
            writer = csv.DictWriter(stream, rows[0].keys())
            writer.writeheader()
            writer.writerows(rows)
        return sheet
