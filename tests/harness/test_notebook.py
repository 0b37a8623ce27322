"""A notebook runs an event loop of its own in the thread that calls us."""

from __future__ import annotations

import asyncio
from pathlib import Path

from ethogram.harness.suites import run
from ethogram.plans import Check, Suite, Task


def test_runs_where_a_loop_is_running(tmp_path: Path) -> None:
    suite = Suite(name="one", tasks=(Task(id="a", prompt="say yes", expected="yes", checks=(Check(kind="equals"),)),))

    async def cell() -> int:
        return run(suite, lambda task, episode: "yes", k=3, home=str(tmp_path)).successes

    assert asyncio.run(cell()) == 3
