from __future__ import annotations

import errno
import socket
from types import SimpleNamespace

import pytest

from ethogram.harness.faults import (
    Fault,
    NetworkFault,
    RateLimited,
    SandboxFault,
    WorldTimeout,
    fault_of,
    is_machine_failure,
)


class APIStatusError(Exception):
    def __init__(self, status: int, headers: dict[str, str] | None = None) -> None:
        super().__init__(f"status {status}")
        self.response = SimpleNamespace(status_code=status, headers=headers or {})


class RateLimitError(Exception):
    pass


class APIConnectionError(Exception):
    pass


class ReadTimeout(Exception):
    pass


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (APIStatusError(429), "infrastructure.rate_limit"),
        (APIStatusError(529), "infrastructure.rate_limit"),
        (APIStatusError(500), "infrastructure.network"),
        (APIStatusError(503), "infrastructure.network"),
        (APIStatusError(504), "infrastructure.timeout"),
        (APIStatusError(408), "infrastructure.timeout"),
        (RateLimitError("slow down"), "infrastructure.rate_limit"),
        (APIConnectionError("gone"), "infrastructure.network"),
        (ReadTimeout(), "infrastructure.timeout"),
        (ConnectionResetError("reset"), "infrastructure.network"),
        (socket.gaierror("no such host"), "infrastructure.network"),
        (SandboxFault("no bwrap"), "infrastructure.sandbox"),
        (NetworkFault("x"), "infrastructure.network"),
    ],
)
def test_the_worlds_faults_are_recognised(error: Exception, reason: str) -> None:
    fault = fault_of(error)
    assert isinstance(fault, Fault)
    assert fault.reason == reason


@pytest.mark.parametrize(
    "error",
    [
        ValueError("a bug"),
        KeyError("x"),
        APIStatusError(400),
        APIStatusError(404),
        ZeroDivisionError(),
        AssertionError(),
    ],
)
def test_the_agents_own_faults_are_not_the_worlds(error: Exception) -> None:
    assert fault_of(error) is None


def test_retry_after_is_read() -> None:
    fault = fault_of(APIStatusError(429, {"retry-after": "2.5"}))
    assert isinstance(fault, RateLimited)
    assert fault.retry_after == 2.5
    odd = fault_of(APIStatusError(429, {"retry-after": "Wed, 21 Oct 2026 07:28:00 GMT"}))
    assert odd is not None
    assert odd.retry_after is None


def test_a_time_out_of_a_socket_is_the_worlds() -> None:
    assert isinstance(fault_of(TimeoutError("timed out")), WorldTimeout)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EMFILE, errno.EROFS])
def test_a_full_disk_stops_the_run(number: int) -> None:
    assert is_machine_failure(OSError(number, "no"))
    assert not is_machine_failure(OSError(errno.ENOENT, "no"))
