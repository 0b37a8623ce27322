"""Work that waits until no bytes pass: in order, not for long, not without limit."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from ethogram.wire.gateway import deferred as module
from ethogram.wire.gateway.deferred import Later


def noting(done: list[int], number: int) -> Callable[[], None]:
    return lambda: done.append(number)


def test_work_is_done_in_order_once_it_is_quiet() -> None:
    async def go() -> None:
        later, done = Later(), []
        for number in range(5):
            later.add(noting(done, number), 10)
        assert done == []
        await asyncio.sleep(0.1)
        assert done == [0, 1, 2, 3, 4]
        later.add(noting(done, 5), 10)  # it wakes up again
        await asyncio.sleep(0.1)
        assert done[-1] == 5

    asyncio.run(go())


def test_bytes_that_pass_go_first_but_not_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    async def go() -> None:
        monkeypatch.setattr(module, "LATEST_SECONDS", 0.2)
        monkeypatch.setattr(module, "QUIET_SECONDS", 0.05)
        later, done = Later(), []
        loop = asyncio.get_running_loop()
        began = loop.time()
        later.add(lambda: done.append(loop.time() - began), 1)
        while loop.time() - began < 1.0 and not done:
            later.busy()
            await asyncio.sleep(0.005)
        assert 0.2 <= done[0] < 1.0

    asyncio.run(go())


@pytest.mark.parametrize(("number", "size"), [(10_000, 1), (10, 50 << 20)])
def test_what_waits_is_bounded(number: int, size: int) -> None:
    async def go() -> None:
        later, done = Later(), []
        for one in range(number):
            later.add(noting(done, one), size)
            assert one + 1 - len(done) <= module.MOST_WAITING
            assert (one + 1 - len(done)) * size <= module.MOST_BYTES
        later.drain()
        assert done == list(range(number))

    asyncio.run(go())


def test_work_that_fails_does_not_keep_the_rest_waiting() -> None:
    async def go() -> None:
        later, done, told = Later(), [], []
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: told.append(context["exception"]))

        def fail() -> None:
            raise OSError("no space left")

        later.add(fail, 1)
        later.add(noting(done, 1), 1)
        await asyncio.sleep(0.1)
        assert (done, [str(one) for one in told]) == ([1], ["no space left"])

    asyncio.run(go())


def test_work_may_add_work_and_ask_for_all_of_it() -> None:
    async def go() -> None:
        later, done = Later(), []

        def first() -> None:
            later.add(noting(done, 2), 1)
            later.drain()  # from within work this does nothing: what comes after it stays after it
            done.append(1)

        later.add(first, 1)
        later.drain()
        assert done == [1, 2]

    asyncio.run(go())
