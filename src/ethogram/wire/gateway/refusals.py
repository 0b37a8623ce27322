"""Whose fault a call is that no model answered: the provider's and the account's, or the agent's own request.

One function says it, from what came back; the table in `docs/guide/run.md` is the same in words. What an account, an
address or a server refuses is a reason of a missing outcome. What the agent asked for wrongly has none: a malformed
request, a context that it overfilled, a schema of a tool that is not accepted.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator, Mapping
from typing import Any, Protocol

import msgspec

from ethogram.traces import REASON_FACTS, Reason, cut_whole
from ethogram.wire.asgi import Headers

from .call import Refuse
from .headers import header
from .upstreams import Upstream

KEY: Reason = "infrastructure.provider.key"
PERMISSION: Reason = "infrastructure.provider.permission"
BALANCE: Reason = "infrastructure.provider.balance"
MODEL: Reason = "infrastructure.provider.model"
ADDRESS: Reason = "infrastructure.provider.address"
OVERLOAD: Reason = "infrastructure.provider.overload"
DOWN: Reason = "infrastructure.provider.down"
UNREACHED: Reason = "infrastructure.provider.unreached"

_CODES: dict[str, Reason] = {
    **dict.fromkeys(("invalid_api_key", "authentication_error", "API_KEY_INVALID", "UNAUTHENTICATED"), KEY),
    **dict.fromkeys(("UnrecognizedClientException", "ExpiredTokenException", "InvalidSignatureException"), KEY),
    **dict.fromkeys(("InvalidClientTokenId", "IncompleteSignature", "RequestExpired"), KEY),
    **dict.fromkeys(("permission_error", "PERMISSION_DENIED", "AccessDeniedException", "NotAuthorized"), PERMISSION),
    **dict.fromkeys(("unsupported_country_region_territory", "FTUFormNotFilled"), PERMISSION),
    **dict.fromkeys(("insufficient_quota", "billing_hard_limit_reached", "billing_not_active"), BALANCE),
    **dict.fromkeys(("billing_error", "ServiceQuotaExceededException"), BALANCE),
    **dict.fromkeys(("model_not_found", "invalid_model", "unknown_model", "DeploymentNotFound"), MODEL),
    **dict.fromkeys(("unknown_url", "UnknownOperationException"), ADDRESS),
    **dict.fromkeys(("rate_limit_error", "rate_limit_exceeded", "overloaded_error", "RESOURCE_EXHAUSTED"), OVERLOAD),
    **dict.fromkeys(("ThrottlingException", "ModelNotReadyException", "ServiceUnavailableException"), OVERLOAD),
    **dict.fromkeys(("server_error", "internal_server_error", "timeout_error", "INTERNAL"), DOWN),
    **dict.fromkeys(("ModelTimeoutException", "ModelErrorException", "InternalServerException"), DOWN),
}
"""What providers call their errors; `invalid_request_error`, `api_error` and their like do not say whose they are."""

_BEGINNINGS: tuple[tuple[re.Pattern[str], Reason], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), reason)
    for pattern, reason in (
        (r"API key (not valid|expired|not found)|Incorrect API key|The security token included in the request", KEY),
        (r"Authentication failed: Please make sure your API Key|The request signature we calculated", KEY),
        (r"Your credit balance is too low|Insufficient (account )?balance|Your prepayment credits are", BALANCE),
        (r"(Your billing|Billing) hard limit|This API method requires billing|You have reached your spec", BALANCE),
        (r"This organization has been disabled|User location is not supported", PERMISSION),
        (r"Your (AWS )?account is not authorized|You don't have access to the model", PERMISSION),
        (r"Project \S+ does not have access to model", PERMISSION),
        (r"The provided model identifier is invalid|Invocation of model ID \S+ with on-demand", MODEL),
        (r"(The )?(requested )?model:? .{1,200} (not found|does not exist)|Model Not Exist|Invalid model\b", MODEL),
        (r"models/\S+ is not found|Publisher Model|\S+ is not a valid model|model: [\w.:/-]+$", MODEL),
        (r"The API deployment for this resource does not exist|Unable to access .{0,20}model", MODEL),
        (r"Invalid URL|Unknown request URL|Not Found$|404 page not found|Resource not found$", ADDRESS),
    )
)
"""How the provider's own sentence begins. Only its beginning counts: the rest may repeat what the agent had sent."""

_STATUSES: dict[int, Reason] = {
    401: KEY,
    402: BALANCE,
    403: PERMISSION,
    405: ADDRESS,
    407: PERMISSION,
    408: DOWN,
    424: DOWN,
    429: OVERLOAD,
    501: ADDRESS,
    529: OVERLOAD,
}
_BLOCKED = re.compile(r"flagged|moderation", re.IGNORECASE)
MOST_WORDS, MOST_READ = 300, 1 << 16
HELD = "ethogram_provider_refused"
NO_RETRY = (b"x-should-retry", b"false")


class ProviderRefusal(msgspec.Struct, frozen=True, kw_only=True):
    """A call that a provider, or the way to it, refused; `said` are the provider's own words, not redacted."""

    reason: Reason
    provider: str
    status: int | None
    said: str = ""
    retry_after: float | None = None

    def __str__(self) -> str:
        answered = "did not answer" if self.status is None else f"answered HTTP {self.status}"
        return f"{self.provider} {answered}{f': {self.said}' if self.said else ''}"


def refusal_reason(status: int | None, body: bytes = b"", *, kind: str = "", sent: bool = True) -> Reason | None:
    """Why no model answered, where that is not the agent's doing; None where it is, or where one did answer.

    `status` is None where no reply came; `sent` is then whether the request had left. `kind` is what a header calls the
    error. What the provider's sentence begins with counts first, then what it calls its error, then the status.

    >>> refusal_reason(401)
    'infrastructure.provider.key'
    """
    if status is None:
        return DOWN if sent else UNREACHED
    codes, said = error_facts(body)
    status = next((int(code) for code in codes if code.isdecimal()), status) if status < 400 else status
    if status == 403 and _BLOCKED.search(said):
        return None  # what the agent asked, not whether it may ask
    named = next((_CODES[code] for code in (kind.partition(":")[0], *codes) if code in _CODES), None)
    if status < 400:  # an error in the middle of a stream
        return named or (DOWN if "api_error" in codes else None)
    begun = next((reason for pattern, reason in _BEGINNINGS if pattern.match(said)), None)
    if begun or named or status in _STATUSES:
        return begun or named or _STATUSES[status]
    if status >= 500:
        return DOWN
    return ADDRESS if status in (404, 410) and not codes and not said else None


def held_call(refusal: ProviderRefusal) -> Refuse:
    """The answer to a call that the breaker does not forward: the status of what was refused before."""
    passes = REASON_FACTS[refusal.reason].passes
    why = f"not forwarded, for the provider refused the calls before it: {refusal}"
    return Refuse(status=refusal.status or 502, kind=HELD, message=why, retry=passes)


def held_headers(refusal: ProviderRefusal) -> Headers:
    """When a client may try again what is not forwarded, or that it need not."""
    after = refusal.retry_after
    return [NO_RETRY] if after is None else [(b"retry-after", f"{after:g}".encode())]


def error_facts(body: bytes) -> tuple[list[str], str]:
    """What an error calls itself, and its sentence; nothing of a body that is no error of an API."""
    try:
        value = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return [], ""
    top = value[0] if isinstance(value, list) and value else value  # Gemini streams a list
    if not isinstance(top, Mapping):
        return [], ""
    inner = top.get("error", top)
    if isinstance(inner, str):
        return [], inner
    facts = inner if isinstance(inner, Mapping) else {}
    said = next((w for w in (facts.get("message"), facts.get("Message"), top.get("detail")) if isinstance(w, str)), "")
    return list(_codes(facts)), said.strip()


def _codes(facts: Mapping[str, Any]) -> Iterator[str]:
    for name in ("code", "type", "status", "__type"):
        if isinstance(facts.get(name), str | int):
            yield str(facts[name]).rpartition("#")[2].partition(":")[0]
    details = facts.get("details")
    for detail in details if isinstance(details, list) else ():
        if isinstance(detail, Mapping) and isinstance(detail.get("reason"), str):
            yield detail["reason"]


class CallOutcomes:
    """What became of the model calls of one episode: which were answered, and which nobody but the world refused."""

    def __init__(self, breaker: CallBreaker | None = None) -> None:
        """No call was made yet; `breaker` is told of all, and may have calls answered that are not forwarded."""
        self.last: ProviderRefusal | None = None
        """What refused the last call that was made, where the world did."""
        self.held = False
        """Whether the open breaker refused a call."""
        self._breaker = breaker
        self._settled = 0
        self._first: ProviderRefusal | None = None
        self._open: dict[Hashable, Reason] = {}

    def spoiled(self) -> None:
        """A call failed by a disturbance, which the agent is to live with, or may have been answered unseen."""
        self._settled += 1
        self.last = None

    def reached(self, asked: Hashable) -> None:
        """The provider answered a call, or refused what the agent asked; earlier refusals of the same are made good."""
        self.spoiled()
        if self._breaker is not None:
            self._breaker.answered()
        if self._open:
            self._open.pop(asked, None)

    def refused(self, refusal: ProviderRefusal, asked: Hashable, *, forwarded: bool = True) -> None:
        """The world refused a call; one that the breaker refused was not `forwarded`."""
        self.last = refusal
        self._first = self._first or refusal
        self._open[asked] = refusal.reason
        if forwarded and self._breaker is not None:
            self._breaker.refused(refusal)

    def instead(self) -> ProviderRefusal | None:
        """What to answer in place of forwarding a call, while the breaker is open."""
        if self._breaker is None:
            return None
        refusal = self._breaker.instead()
        self.held = self.held or (refusal is not None and self._breaker.opened_by is not None)
        return refusal

    @property
    def unanswered(self) -> ProviderRefusal | None:
        """The first refusal, where the world refused every call of the episode, or ended its calls for good."""
        return self._first if self.held or not self._settled else None

    @property
    def lost(self) -> str:
        """Reasons for which requests were refused that were not answered when they were sent again."""
        return ",".join(sorted(set(self._open.values())))


class CallBreaker(Protocol):
    """What episodes need of the breaker of their run."""

    opened_by: ProviderRefusal | None

    def answered(self) -> None:
        """A provider answered."""
        ...

    def refused(self, refusal: ProviderRefusal) -> None:
        """A provider refused."""
        ...

    def instead(self) -> ProviderRefusal | None:
        """What to answer in place of forwarding a call."""
        ...


def refusal_of(
    upstream: Upstream, status: int | None, headers: Headers, body: bytes, *, unsent: bool = False, why: str = ""
) -> ProviderRefusal | None:
    """A call that got no answer of a model, where the world refused it; `why` is what is known where no reply came."""
    kind = (header(headers, b"x-amzn-errortype") or b"").decode("latin-1")
    reason = refusal_reason(status, body, kind=kind, sent=not unsent)
    if reason is None:
        return None
    said = error_facts(body)[1] or why or body[:MOST_READ].decode("utf-8", "replace")
    later = (header(headers, b"retry-after") or b"").decode("latin-1")
    return ProviderRefusal(
        reason=reason,
        provider=f"{upstream.name} at {upstream.origin.partition('//')[2]}",
        status=status,
        said=cut_whole(" ".join(said.split()), MOST_WORDS),
        retry_after=float(later) if later.replace(".", "", 1).isdecimal() else None,
    )
