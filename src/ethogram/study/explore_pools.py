"""Where the episodes of a world are played: on this machine's cores, or on Ray.

A pool is given calls and hands back what they return, in any order. Calls may begin before anybody waits for them, so
that one round is played while another is written.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

from ethogram.cluster import PATIENCE_SECONDS, Cluster
from ethogram.errors import MachineFailure

Call = tuple[Any, ...]


class Pool(Protocol):
    """Workers elsewhere."""

    def begin(self, calls: Sequence[Call]) -> list[Any]:
        """Let workers begin; gives a handle per call."""
        ...

    def results(self, handles: Sequence[Any]) -> Iterator[Any]:
        """What the calls returned, each as soon as it is there."""
        ...

    def close(self) -> None:
        """Let the workers go; calls that nobody waits for are dropped."""
        ...


class Cores:
    """Worker processes on this machine."""

    def __init__(self, function: Callable[..., Any], workers: int) -> None:
        """Workers are copies of one process that has imported what they need."""
        from concurrent.futures import ProcessPoolExecutor
        from multiprocessing import forkserver, get_context

        context = get_context("forkserver")
        context.set_forkserver_preload([function.__module__])
        forkserver.ensure_running()
        self._function = function
        self._pool = ProcessPoolExecutor(workers, mp_context=context, initializer=_end_with_parent)

    def begin(self, calls: Sequence[Call]) -> list[Any]:
        """Queue the calls."""
        return [self._pool.submit(self._function, *call) for call in calls]

    def results(self, handles: Sequence[Any]) -> Iterator[Any]:
        """In the order in which they end."""
        from concurrent.futures import as_completed
        from concurrent.futures.process import BrokenProcessPool

        try:
            for future in as_completed(handles):
                yield future.result()
        except BrokenProcessPool:
            raise MachineFailure(
                "a worker process was ended from outside; what was recorded is kept, repeat the command to go on"
            ) from None

    def close(self) -> None:
        """End the workers."""
        self._pool.shutdown(cancel_futures=True)


def _end_with_parent() -> None:
    """A worker whose driver was killed would wait for work for ever."""
    from multiprocessing import parent_process
    from multiprocessing.connection import wait
    from threading import Thread

    parent = parent_process()
    if parent is not None:
        Thread(target=lambda: (wait([parent.sentinel]), os._exit(1)), daemon=True).start()


class RayPool:
    """Tasks on a Ray cluster."""

    def __init__(self, function: Callable[..., Any], patience: float = PATIENCE_SECONDS) -> None:
        """`patience` is how long to wait in seconds while no task ends."""
        self._cluster = Cluster(patience)
        self._function = function

    def begin(self, calls: Sequence[Call]) -> list[Any]:
        """Hand the calls to the cluster."""
        return self._cluster.begin(self._function, calls)

    def results(self, handles: Sequence[Any]) -> Iterator[Any]:
        """In the order in which they end."""
        return self._cluster.results(handles)

    def close(self) -> None:
        """Leave the cluster, if it was entered here."""
        self._cluster.close()
