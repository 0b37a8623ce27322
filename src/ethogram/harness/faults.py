"""Faults by origin: those of the environment are missing outcomes, those of the agent are scored.

Fault                     the episode could not be carried out, and the agent is not to blame
├── NetworkFault          infrastructure.network
├── RateLimited           infrastructure.rate_limit   (carries `retry_after`)
├── WorldTimeout          infrastructure.timeout
├── SandboxFault          infrastructure.sandbox
├── VerifierFault         infrastructure.verifier
├── RecorderFault         infrastructure.other        (the call could not be recorded)
└── OtherFault            infrastructure.other
"""

from __future__ import annotations

import errno
import socket
from typing import ClassVar

from ethogram.errors import EthogramError
from ethogram.traces import Reason


class Fault(EthogramError):
    """The world failed. Agents, tools and worlds may raise these themselves."""

    reason: ClassVar[Reason] = "infrastructure.other"
    transient: ClassVar[bool] = True
    retry_after: float | None = None


class NetworkFault(Fault):
    """A connection could not be made or broke."""

    reason: ClassVar[Reason] = "infrastructure.network"


class RateLimited(Fault):
    """A provider asked us to slow down."""

    reason: ClassVar[Reason] = "infrastructure.rate_limit"

    def __init__(self, message: str = "rate limited", retry_after: float | None = None) -> None:
        """`retry_after` is the provider's own wish, in seconds."""
        super().__init__(message)
        self.retry_after = retry_after


class WorldTimeout(Fault):
    """Something that is not the agent did not answer in time."""

    reason: ClassVar[Reason] = "infrastructure.timeout"


class SandboxFault(Fault):
    """The workspace or the isolation could not be set up."""

    reason: ClassVar[Reason] = "infrastructure.sandbox"


class VerifierFault(Fault):
    """A verifier crashed: that says nothing about the agent."""

    reason: ClassVar[Reason] = "infrastructure.verifier"
    transient: ClassVar[bool] = False


class RecorderFault(Fault):
    """What records an episode failed: that says nothing about the agent."""

    transient: ClassVar[bool] = False


class OtherFault(Fault):
    """The world failed in another way."""


MACHINE_ERRNOS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EMFILE, errno.ENFILE})
"""Failures of this machine stop the run: every further episode would fail the same way."""


def fault_of(error: BaseException) -> Fault | None:
    """The fault behind an exception of any client library, or None if the agent itself is to blame.

    Clients are recognised by what their errors carry (a status code, a response) and by the names of their classes,
    so that none of them has to be installed.
    """
    if isinstance(error, Fault):
        return error
    status = _status(error)
    if status == 429:
        return RateLimited(str(error), _retry_after(error))
    if status in (408, 504):
        return WorldTimeout(f"HTTP {status}: {error}")
    if status is not None and status >= 500:
        fault: Fault = (
            RateLimited(str(error), _retry_after(error)) if status == 529 else NetworkFault(f"HTTP {status}: {error}")
        )
        return fault
    names = {c.__name__ for c in type(error).__mro__}
    if "RateLimitError" in names:
        return RateLimited(str(error), _retry_after(error))
    if names & {"APITimeoutError", "TimeoutException", "ConnectTimeout", "ReadTimeout"} or isinstance(
        error, socket.timeout
    ):
        return WorldTimeout(str(error) or type(error).__name__)
    if names & {"APIConnectionError", "TransportError", "ConnectError", "NetworkError", "InternalServerError"}:
        return NetworkFault(str(error) or type(error).__name__)
    if isinstance(error, ConnectionError | socket.gaierror):
        return NetworkFault(str(error) or type(error).__name__)
    return None


def is_machine_failure(error: BaseException) -> bool:
    """Whether this machine failed, so that the run must stop."""
    return isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno in MACHINE_ERRNOS)


def _status(error: BaseException) -> int | None:
    for holder in (error, getattr(error, "response", None)):
        status = getattr(holder, "status_code", None)
        if isinstance(status, int):
            return status
    code = getattr(error, "code", None)
    return code if isinstance(code, int) and type(error).__name__ == "HTTPError" else None


def _retry_after(error: BaseException) -> float | None:
    headers = getattr(getattr(error, "response", error), "headers", None)
    try:
        return max(0.0, float(headers.get("retry-after"))) if headers is not None else None
    except (TypeError, ValueError, AttributeError):
        return None
