"""Faults by origin: those of the environment are missing outcomes, those of the agent are scored.

Fault                     the episode could not be carried out, and the agent is not to blame
├── NetworkFault          infrastructure.network
├── RateLimited           infrastructure.rate_limit   (carries `retry_after`)
├── WorldTimeout          infrastructure.timeout
├── SandboxFault          infrastructure.sandbox
├── VerifierFault         infrastructure.verifier
├── ProviderFault         infrastructure.provider.…   (carries `retry_after`; transient where waiting may cure it)
├── RecorderFault         infrastructure.other        (the call could not be recorded)
└── OtherFault            infrastructure.other
"""

from __future__ import annotations

import errno
import socket
from typing import Any

import msgspec

from ethogram.errors import EthogramError
from ethogram.traces import REASON_FACTS, Missing, Reason, cut_whole
from ethogram.wire.gateway.refusals import ProviderRefusal, refusal_reason

MOST_WORDS = 500
"""Characters of a fault that an outcome keeps."""


class Fault(EthogramError):
    """The world failed. Agents, tools and worlds may raise these themselves."""

    reason: Reason = "infrastructure.other"
    transient: bool = True
    retry_after: float | None = None

    @property
    def missing(self) -> Missing:
        """The outcome of an episode that ended by it."""
        return Missing(self.reason, cut_whole(str(self), MOST_WORDS))


class NetworkFault(Fault):
    """A connection could not be made or broke."""

    reason: Reason = "infrastructure.network"


class RateLimited(Fault):
    """A provider asked us to slow down."""

    reason: Reason = "infrastructure.rate_limit"

    def __init__(self, message: str = "rate limited", retry_after: float | None = None) -> None:
        """`retry_after` is the provider's own wish, in seconds."""
        super().__init__(message)
        self.retry_after = retry_after


class WorldTimeout(Fault):
    """Something that is not the agent did not answer in time."""

    reason: Reason = "infrastructure.timeout"


class SandboxFault(Fault):
    """The workspace or the isolation could not be set up."""

    reason: Reason = "infrastructure.sandbox"


class VerifierFault(Fault):
    """A verifier crashed: that says nothing about the agent."""

    reason: Reason = "infrastructure.verifier"
    transient: bool = False


class ProviderFault(Fault):
    """A provider of models refused calls, or was not reached."""

    def __init__(self, refusal: ProviderRefusal, words: str = "") -> None:
        """`words` are what the agent said of it, if it did."""
        super().__init__(f"{refusal}; then {words}" if words else str(refusal))
        self.refusal = refusal
        self.reason = refusal.reason
        self.transient = REASON_FACTS[refusal.reason].passes
        self.retry_after = refusal.retry_after


class RecorderFault(Fault):
    """What records an episode failed: that says nothing about the agent."""

    transient: bool = False


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
    refusal = _refusal_in(error)
    if refusal is not None:
        return ProviderFault(refusal)
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


_PACKAGES = frozenset({"anthropic", "cohere", "google", "groq", "litellm", "mistralai", "openai", "together"})
"""Clients of providers: what their errors say of a status is about a model call."""


def _refusal_in(error: BaseException) -> ProviderRefusal | None:
    """What the error of a provider's client tells of a reply that is not the agent's fault."""
    package, response = type(error).__module__.partition(".")[0], getattr(error, "response", None)
    told: Any = getattr(error, "body", None) or getattr(error, "details", None)
    status = _status(error) or getattr(error, "code", None)
    if package == "botocore" and isinstance(response, dict) and _asks_a_model(error):
        answer = response.get("Error", {})
        told = {"__type": answer.get("Code"), "message": answer.get("Message")}
        status = response.get("ResponseMetadata", {}).get("HTTPStatusCode")
    elif package not in _PACKAGES:
        return None
    if not isinstance(status, int):
        return None
    try:
        body = msgspec.json.encode(told)
    except (TypeError, ValueError):
        body = b""
    reason = refusal_reason(status, body)
    if reason is None:
        return None
    return ProviderRefusal(
        reason=reason,
        provider=package,
        status=status,
        said=cut_whole(str(error), MOST_WORDS),
        retry_after=_retry_after(error),
    )


def _asks_a_model(error: BaseException) -> bool:
    """Whether the call of Amazon that failed was one of a model."""
    return str(getattr(error, "operation_name", "")).startswith(("InvokeModel", "Converse"))


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
