"""Blocking calls in threads that do not keep the process alive, and waits that a stop interrupts."""

from __future__ import annotations

import asyncio
import contextvars
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager, asynccontextmanager
from typing import Any, TypeVar

T = TypeVar("T")
STOP_SECONDS = 0.25
"""How often one who waits asks whether the run was stopped."""
LARGE = 1 << 16
"""Texts from this length on are parsed, judged and redacted in a thread: other episodes go on meanwhile."""


async def in_thread(function: Callable[..., T], *args: Any) -> T:
    """Call a function in a daemon thread of its own.

    A pool's threads are waited for when the loop closes and when the interpreter ends, so that Ctrl-C would have to
    wait for the slowest agent. How many run at once is the engine's business.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()
    context = contextvars.copy_context()

    def tell(give: Callable[[Any], None], what: Any) -> None:
        if not future.done():  # cancelled meanwhile: nobody waits any more
            give(what)

    def body() -> None:
        give: Callable[[Any], None] = future.set_result
        what: Any
        try:
            what = context.run(function, *args)
        except BaseException as error:
            give, what = future.set_exception, _raisable(error)
        try:
            loop.call_soon_threadsafe(tell, give, what)
        except RuntimeError:  # the loop is closed: the run was interrupted long ago
            return

    threading.Thread(target=body, daemon=True, name="ethogram-agent").start()
    return await future


def _raisable(error: BaseException) -> BaseException:
    """A future cannot carry StopIteration, and only the keyboard interrupts the whole run."""
    if isinstance(error, StopIteration | KeyboardInterrupt):
        told = RuntimeError(f"{type(error).__name__}: {error}")
        told.__cause__ = error
        return told
    return error


@asynccontextmanager
async def leaving(manager: AbstractContextManager[T], aside: Callable[[], bool]) -> AsyncIterator[T]:
    """A context manager whose end may take long: where `aside` says so, it ends in a thread."""
    value = manager.__enter__()
    try:
        yield value
    except BaseException as error:
        if not manager.__exit__(type(error), error, error.__traceback__):
            raise
    else:
        if aside():
            await in_thread(manager.__exit__, None, None, None)
        else:
            manager.__exit__(None, None, None)


async def unless_stopped(seconds: float, stop: Callable[[], bool]) -> bool:
    """Wait; False as soon as the run is stopped."""
    until = time.monotonic() + seconds
    while not stop():
        left = until - time.monotonic()
        if left <= 0:
            return True
        await asyncio.sleep(min(left, STOP_SECONDS))
    return False
