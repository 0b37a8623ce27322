"""The local engine: asyncio for agents that wait, threads for agents that block.

Concurrency adapts: a provider that says 429 halves it and is left alone for as long as it wishes; success lets it
grow back by one at a time.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, Protocol, TypeVar

from ethogram.harness.scratch import sweep_scratch
from ethogram.harness.threads import unless_stopped

Stop = Callable[[], bool]
W = TypeVar("W", contravariant=True)
R = TypeVar("R", covariant=True)


class WorkExecutor(Protocol[W, R]):
    """What an engine needs of an executor: of episodes of a suite, or of batches of a grid world."""

    on_slow: Callable[[float | None], None]
    stop: Stop

    async def execute(self, work: W) -> R:
        """Carry out one work item and give its report."""
        ...

    def commit(self) -> None:
        """Publish what is complete."""
        ...

    def close(self) -> None:
        """Publish what is complete and let go."""
        ...


class Engine(Protocol[W, R]):
    """The port: work items in, a report for each."""

    def run(self, work: Iterable[W], report: Callable[[R], None], stop: Stop) -> None:
        """Carry out work until it ends or `stop` says so; what is in flight is drained."""
        ...

    def close(self) -> None:
        """Commit and let go."""
        ...


class AdaptiveLimit:
    """How many episodes may run at once, right now."""

    def __init__(self, most: int) -> None:
        """Begin with the most that is allowed."""
        self.most = most
        self.now = most
        self.running = 0
        self.not_before = 0.0
        self._wins = 0
        self._waiting: list[asyncio.Future[None]] = []

    async def enter(self, stop: Stop) -> bool:
        """Wait for a place, and take it; False where the run was stopped meanwhile, so that nothing may begin."""
        while self.running >= self.now:  # all of this happens on one event loop: no lock is needed
            free = asyncio.get_running_loop().create_future()
            self._waiting.append(free)
            await free
        self.running += 1
        while (wait := self.not_before - time.monotonic()) > 0:
            if not await unless_stopped(wait, stop):
                return False
        return not stop()

    def leave(self) -> None:
        """Give the place back; every full round of successes opens one more."""
        self.running -= 1
        self._wins += 1
        if self._wins >= self.now and self.now < self.most:
            self.now += 1
            self._wins = 0
        waiting, self._waiting = self._waiting, []
        for free in waiting:
            if not free.done():  # else its worker was cancelled
                free.set_result(None)

    def slow(self, seconds: float | None) -> None:
        """A provider asked us to slow down."""
        self.now = max(1, self.now // 2)
        self._wins = 0
        if seconds:
            self.not_before = max(self.not_before, time.monotonic() + seconds)


class LocalEngine(Generic[W, R]):
    """Episodes in this process; `run` may be called again."""

    def __init__(self, executor: WorkExecutor[W, R], concurrency: int) -> None:
        """`concurrency` is the most that run at once."""
        sweep_scratch()  # what a killed run left behind
        self.executor = executor
        self.concurrency = concurrency

    def run(self, work: Iterable[W], report: Callable[[R], None], stop: Stop) -> None:
        """Carry out work until it ends or `stop` says so; a notebook, whose own loop is running, waits for it too."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            asyncio.run(self._run(iter(work), report, stop))
            return
        halted = threading.Event()
        with ThreadPoolExecutor(1, thread_name_prefix="ethogram-engine") as aside:
            going = self._run(iter(work), report, lambda: halted.is_set() or stop())
            done = aside.submit(asyncio.run, going)
            try:
                done.result()
            except BaseException:
                halted.set()
                raise

    def close(self) -> None:
        """Commit what is complete."""
        self.executor.close()

    async def _run(self, work: Iterator[W], report: Callable[[R], None], stop: Stop) -> None:
        pool = ThreadPoolExecutor(self.concurrency, thread_name_prefix="ethogram-agent")
        asyncio.get_running_loop().set_default_executor(pool)
        limit = AdaptiveLimit(self.concurrency)
        self.executor.on_slow, self.executor.stop = limit.slow, stop
        adapting = self.concurrency > 1

        async def worker() -> None:
            while not stop():
                may_begin = not adapting or await limit.enter(stop)
                try:
                    one = next(work, None) if may_begin else None
                    if one is None:
                        return
                    report(await self.executor.execute(one))
                finally:
                    if adapting:
                        limit.leave()
                await asyncio.sleep(0)

        workers = [asyncio.create_task(worker()) for _ in range(self.concurrency)]
        try:
            await asyncio.gather(*workers)
        except BaseException:
            for task in workers:
                task.cancel()
            await asyncio.gather(*workers, return_exceptions=True)
            raise
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
