"""A model's replies to the beginnings of tasks, compared with the parts that it was not given.

A rest has words of its own: runs of five that stand neither in the beginning nor in any other task. A model that writes
half of them has read the task before; one that has not cannot.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ethogram.estimate import Estimate
from ethogram.plans import Suite, Task
from ethogram.plans.golden import GoldenSet
from ethogram.statistics.interval import wilson

from .overlap import Beginning, reproduced

ASK = "Continue this text word for word from where it stops. Write nothing but the continuation.\n\n"
CANARY_TASK = "ethogram-golden-canary"
REMEMBERED = 0.5
"""From this share of a rest's own runs of words on, a reply was written from memory."""
EXCERPT = 200


class ProbeRow(msgspec.Struct, frozen=True, kw_only=True):
    """One text whose beginning was given to a model: how much of the rest its reply contains.

    `own` are runs of five words that stand neither in the beginning nor in any other task. `remembered` is None where
    no reply came.
    """

    task: str
    own: int
    reproduced: int | None
    remembered: bool | None
    reply: str
    why: str | None = None


class MemoryProbe(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a model continues tasks from memory; `canary` is whether it completed the canary itself.

    `share` is that of probed tasks that it remembers; `too_short` could not be probed.
    """

    agent: str
    run: str
    share: Estimate
    canary: bool | None
    rows: list[ProbeRow]
    too_short: list[str]
    cost_usd: float | None
    at_least_usd: float
    stopped: str | None = None

    @property
    def remembers(self) -> bool:
        """Whether anything was remembered: one text word for word is proof."""
        return bool(self.canary) or any(row.remembered for row in self.rows)


def probe_suite(golden: GoldenSet, chosen: Mapping[str, Beginning]) -> Suite:
    """The questions of a probe as a suite of its own: nothing checks them, so nothing is scored."""
    tasks = [Task(id=task, prompt=f"{ASK}{cut.given}") for task, cut in chosen.items()]
    word, _, key = golden.canary.partition(" ")
    tasks.append(Task(id=CANARY_TASK, prompt=f"{ASK}{word} {key[: len(key) // 2]}"))
    return Suite(name=f"probe-{golden.suite}", tasks=tuple(tasks))


def knows_canary(golden: GoldenSet, reply: str | None) -> bool | None:
    """Whether a reply completes the canary, given its first half; None where there is no reply."""
    key = golden.canary.partition(" ")[2]
    return None if reply is None else key[len(key) // 2 :] in reply


def probe_row(task: str, cut: Beginning, reply: str | None) -> ProbeRow:
    """One reply, compared with the rest of its text."""
    if reply is None:
        return ProbeRow(task=task, own=len(cut.own), reproduced=None, remembered=None, reply="", why="no reply came")
    count = reproduced(cut, reply)
    return ProbeRow(
        task=task,
        own=len(cut.own),
        reproduced=count,
        remembered=count >= REMEMBERED * len(cut.own),
        reply=reply[:EXCERPT],
    )


def remembered_share(rows: list[ProbeRow]) -> Estimate:
    """The share of texts that were remembered, of those that were answered."""
    known = [row.remembered for row in rows if row.remembered is not None]
    missing = {"no_reply": len(rows) - len(known)} if len(known) < len(rows) else {}
    if not known:
        return Estimate(value=None, method="wilson", of="tasks", missing=missing, why="no reply came")
    low, high = wilson(sum(known), len(known), 0.95)
    value = sum(known) / len(known)
    return Estimate(
        value=value, low=float(low), high=float(high), method="wilson", n=len(known), of="tasks", missing=missing
    )
