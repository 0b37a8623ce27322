"""A drill: pull the kill switch on a practice run, and measure how soon everything stood still."""

from __future__ import annotations

import threading
import time
from typing import Any

import msgspec

from ethogram.errors import NotFound
from ethogram.harness.options import RunOptions
from ethogram.harness.run_result import Quiet
from ethogram.harness.suites import start_run
from ethogram.result import Result
from ethogram.store import Home, home_of, manifest

from .kill_switch import kill


class Drill(Result, kw_only=True):
    """What a drill measured: how long until nothing new began, and until everything in flight had ended."""

    run: str
    at_ns: int
    seconds_to_halt: float
    seconds_to_drain: float
    episodes_done: int
    episodes_not_run: int
    started_after: int
    ok: bool


def drill(*, home: Home | str | None = None, episodes: int = 200, in_flight: int = 8, seconds: float = 0.3) -> Drill:
    """Pull the switch on a practice run, measure, and keep the record in the home."""
    lake = home_of(home)
    starts: list[float] = []

    async def practice(task: Any, episode: Any) -> str:
        import asyncio

        starts.append(time.monotonic())
        await asyncio.sleep(seconds)
        return "done"

    name = f"drill-{time.time_ns()}"
    suite = _practice_suite(episodes)
    pulled_at = [0.0]

    over = threading.Event()

    def switch() -> None:
        while len(starts) < in_flight:
            if over.wait(0.01):
                return
        time.sleep(seconds)
        kill(name, why="drill", home=lake)
        pulled_at[0] = time.monotonic()

    thread = threading.Thread(target=switch, daemon=True)
    thread.start()
    options = RunOptions(k=1, name=name, workers=in_flight, tags=("drill",))
    try:
        result = start_run(suite, practice, options, home=lake, progress=Quiet())
    finally:
        over.set()
    ended = time.monotonic()
    thread.join(timeout=10)
    if not pulled_at[0]:
        raise NotFound("the drill ended before the switch was pulled; give it more episodes")
    late = [s - pulled_at[0] for s in starts if s > pulled_at[0]]
    record = Drill(
        run=name,
        at_ns=time.time_ns(),
        seconds_to_halt=max(late, default=0.0),
        seconds_to_drain=ended - pulled_at[0],
        episodes_done=result.scored + sum(result.missing.values()),
        episodes_not_run=result.not_run,
        started_after=len(late),
        ok=max(late, default=0.0) <= 1.0 and result.stopped == "killed",
    )
    told = msgspec.json.format(msgspec.json.encode(record))
    manifest.publish(lake.files, "", {f"drills/{record.at_ns}.json": told})
    return record


def _practice_suite(episodes: int) -> Any:
    from ethogram.plans import Suite, Task

    return Suite(name="drill", tasks=tuple(Task(id=f"t{i}") for i in range(episodes)))
