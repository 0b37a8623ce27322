"""Call a model without an agent: send a recorded request again, perhaps changed, and read the reply.

Addresses and keys are found as the providers' own packages find them: `OPENAI_BASE_URL` and `OPENAI_API_KEY`,
`ANTHROPIC_BASE_URL` and `ANTHROPIC_API_KEY` (or `ANTHROPIC_AUTH_TOKEN`). Keys are sent and never stored.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any

from ethogram.errors import BadUsage
from ethogram.traces import Trace, is_marked
from ethogram.wire.certificates import trusted

from .call import ModelReply, ModelRequest, ProtocolName
from .protocols import PROTOCOLS
from .protocols.asking import request_body
from .recorded_calls import RecordedModelCall
from .request_form import IGNORED_PARAMS

if TYPE_CHECKING:
    import httpx

RETRIES = 2
BACKOFF_SECONDS = 0.5
TIMEOUT_SECONDS = 600.0
OURS = frozenset({"request_model", "requested_model", "usage_estimated", "malformed_events", "note"})
"""What the gateway notes among the parameters of a call, and no client sent."""
DIGEST = "b2:"
"""How the digest of a parameter begins that was too long to be kept."""


class Unanswered(Exception):
    """No answer came, or it could not be read."""


def recorded_request(trace: Trace, call: RecordedModelCall) -> ModelRequest:
    """The request of a recorded call, to be sent again; raises `ValueError` that says what the trace lacks of it."""
    if call.wire not in PROTOCOLS:
        raise ValueError("the call did not pass the gateway, so its tools and parameters are not known")
    facts = _facts(trace, call)
    params = {n: v for n, v in call.span.params.items() if n not in OURS and n not in IGNORED_PARAMS}
    kept_there = next((n for n in ("previous_response_id", "conversation") if params.get(n) is not None), None)
    if kept_there is not None:
        raise ValueError(f"the conversation was kept by the provider ({kept_there})")
    long = next((n for n, v in params.items() if isinstance(v, str) and (v.startswith(DIGEST) or is_marked(v))), None)
    if long is not None:
        raise ValueError(f"the parameter {long!r} was too long to be stored, or was redacted")
    return ModelRequest(
        protocol=call.wire,
        model=call.request.model,
        messages=trace.conversation(call.span),
        tools=tuple(facts.get("tools") or ()),
        params=params,
    )


def _facts(trace: Trace, call: RecordedModelCall) -> dict[str, Any]:
    facts = trace.facts(call.span)
    if facts is None:
        raise ValueError("the definitions of its tools were redacted")
    return facts


class ModelClient:
    """Sends requests; use `async with`."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        """`environment` tells addresses and keys; nothing is opened yet."""
        self._environment = environment
        self._client: httpx.AsyncClient | None = None

    async def __aenter__(self) -> ModelClient:
        import httpx

        self._client = httpx.AsyncClient(timeout=httpx.Timeout(TIMEOUT_SECONDS, connect=15.0), verify=trusted())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._client is not None:
            await self._client.aclose()

    def address(self, protocol: ProtocolName) -> str:
        """Where requests of an API go; raises `BadUsage` where no key is at hand."""
        return self._target(protocol)[0]

    async def ask(self, request: ModelRequest) -> ModelReply:
        """The reply; raises `Unanswered` where none came after retries, and `BadUsage` where no key is at hand."""
        import httpx

        assert self._client is not None
        address, headers = self._target(request.protocol)
        body = request_body(request)
        for tries in range(RETRIES + 1):
            try:
                answer = await self._client.post(address, content=body, headers=headers)
            except httpx.TransportError as error:
                why = f"{address} failed: {type(error).__name__}"
            else:
                if answer.status_code < 400:
                    return _read(request.protocol, answer.content)
                why = f"HTTP {answer.status_code}: {_error(request.protocol, answer.content)}"
                if answer.status_code in (401, 403):
                    raise BadUsage(f"the provider refused the key of the environment: {why}")
                if answer.status_code < 500 and answer.status_code not in (408, 409, 429):
                    break
            if tries < RETRIES:
                await asyncio.sleep(BACKOFF_SECONDS * 2**tries)
        raise Unanswered(why)

    def _target(self, protocol: ProtocolName) -> tuple[str, dict[str, str]]:
        given = self._environment
        headers = {"content-type": "application/json"}
        if protocol == "anthropic-messages":
            base = given.get("ANTHROPIC_BASE_URL") or "https://api.anthropic.com"
            key, token = given.get("ANTHROPIC_API_KEY"), given.get("ANTHROPIC_AUTH_TOKEN")
            if not key and not token:
                raise BadUsage("asking the model again needs a key: set ANTHROPIC_API_KEY")
            headers["anthropic-version"] = "2023-06-01"
            headers |= {"x-api-key": key} if key else {"authorization": f"Bearer {token}"}
            return f"{base.rstrip('/')}/v1/messages", headers
        base = given.get("OPENAI_BASE_URL") or "https://api.openai.com/v1"
        if not given.get("OPENAI_API_KEY"):
            raise BadUsage("asking the model again needs a key: set OPENAI_API_KEY")
        headers["authorization"] = f"Bearer {given['OPENAI_API_KEY']}"
        path = "chat/completions" if protocol == "openai-chat" else "responses"
        return f"{base.rstrip('/')}/{path}", headers


def _read(protocol: ProtocolName, body: bytes) -> ModelReply:
    try:
        return PROTOCOLS[protocol].reply(body)
    except ValueError as error:
        raise Unanswered(str(error)) from None


def _error(protocol: ProtocolName, body: bytes) -> str:
    try:
        told = PROTOCOLS[protocol].reply(body).error
    except ValueError:
        told = None
    return told or "no reason was given"
