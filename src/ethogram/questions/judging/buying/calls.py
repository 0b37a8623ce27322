"""Calls of a judge's model: found in the run's cache, or bought within caps; priced, and handed to a recorder.

What is sent is what is stored, so redacted words stay redacted. Keys come from the environment, go into one header and
nowhere else.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlsplit

import msgspec

from ethogram.errors import BadUsage
from ethogram.harness.call_budget import CHARACTERS_PER_TOKEN, CallBudget
from ethogram.harness.reply_cache import ReplyCache
from ethogram.prices.prices import provider_at
from ethogram.questions.judging.modeljudge import JudgeReply, JudgeRequest
from ethogram.traces import Param, ToolCall
from ethogram.wire.asgi import LOOPBACK
from ethogram.wire.gateway.call import ModelReply, ModelRequest, ProtocolName, Usage
from ethogram.wire.gateway.sent_again import ModelClient, Unanswered

KEY_NAME = "ETHOGRAM_JUDGE_API_KEY"
TOOL = "verdicts"
OFFICIAL = {"openai-chat": "https://api.openai.com/v1", "anthropic-messages": "https://api.anthropic.com"}
T = TypeVar("T")


class Endpoint(NamedTuple):
    """Where a judge's model is: its API, and an address without the path of a call (None: the provider's own)."""

    protocol: ProtocolName
    address: str | None = None

    @property
    def provider(self) -> str | None:
        """The provider whose prices apply, judged by the address."""
        return provider_at(self.address or OFFICIAL[self.protocol])


class JudgeCall(NamedTuple):
    """A call that was made, for a recorder."""

    request: JudgeRequest
    reply: ModelReply | None
    error: str | None
    cost_usd: float | None
    start_ns: int
    end_ns: int


class HttpTransport:
    """Sends requests over HTTP from a thread of its own; retries are those of `ModelClient`."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        """Nothing is opened before the first call."""
        self._environment = environment
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._client: ModelClient | None = None

    def send(self, request: ModelRequest) -> ModelReply:
        """The reply."""
        with self._lock:
            if self._client is None:
                self._open()
        assert self._client is not None
        return self._do(self._client.ask(request))

    def close(self) -> None:
        """Close connections and end the thread."""
        if self._loop is None or self._thread is None or self._client is None:
            return
        self._do(self._client.__aexit__(None, None, None))
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        self._loop = self._client = None

    def _open(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="ethogram-judge", daemon=True)
        self._thread.start()
        self._client = self._do(ModelClient(self._environment).__aenter__())

    def _do(self, work: Coroutine[Any, Any, T]) -> T:
        assert self._loop is not None
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()


class JudgeCalls:
    """Answers the requests of one model judge; safe to call from several threads."""

    def __init__(
        self,
        endpoint: Endpoint,
        transport: HttpTransport,
        budget: CallBudget,
        cache: ReplyCache | None = None,
        record: Callable[[JudgeCall], None] | None = None,
    ) -> None:
        self.endpoint = endpoint
        self.transport = transport
        self.budget = budget
        self.cache = cache
        self.record = record

    def __call__(self, request: JudgeRequest) -> JudgeReply:
        """The reply from the cache, else from the model. Raises `CapReached` before a call that a cap forbids."""
        if self.cache is not None and (text := self.cache.find(request.digest)) is not None:
            self.budget.count_cached()
            return JudgeReply(text=text)
        asked = wire_request(request, self.endpoint)
        size = sum(len(m.text) for m in request.messages) / CHARACTERS_PER_TOKEN
        most = Usage(input_tokens=int(size) + 1, output_tokens=request.max_tokens)
        reserved = self.budget.reserve(request.model, self.endpoint.provider, most)
        start = time.time_ns()
        reply: ModelReply | None = None
        error: str | None = None
        cost: float | None = None
        try:
            reply = self.transport.send(asked)
            error = reply.error
        except Unanswered as failure:
            error = str(failure)
        finally:
            usage = reply.usage if reply is not None else None
            cost = self.budget.settle(reserved, request.model, self.endpoint.provider, usage)
        if self.record is not None:
            self.record(JudgeCall(request, reply, error, cost, start, time.time_ns()))
        if reply is None or (error is not None and not reply.message.parts):
            return JudgeReply(error=error or "no reply came")
        text = _words(reply)
        if self.cache is not None:
            self.cache.keep(request.digest, text)
        return JudgeReply(text=text)

    def close(self) -> None:
        """Close connections."""
        self.transport.close()


def wire_request(request: JudgeRequest, endpoint: Endpoint) -> ModelRequest:
    """A request in the words of an API, constrained to the schema of the answer."""
    params: dict[str, Param] = {"temperature": request.temperature}
    schema = msgspec.json.encode(request.schema).decode()
    if endpoint.protocol == "anthropic-messages":  # no seed there; a forced tool call is its structured output
        choice = msgspec.json.encode({"type": "tool", "name": TOOL}).decode()
        tool = {"name": TOOL, "description": "Give the verdicts.", "input_schema": request.schema}
        return ModelRequest(
            protocol=endpoint.protocol,
            model=request.model,
            messages=request.messages,
            tools=(tool,),
            params={**params, "max_tokens": request.max_tokens, "tool_choice": choice},
        )
    limit = "max_completion_tokens" if endpoint.address is None else "max_tokens"
    form = f'{{"type":"json_schema","json_schema":{{"name":"{TOOL}","strict":true,"schema":{schema}}}}}'
    return ModelRequest(
        protocol=endpoint.protocol,
        model=request.model,
        messages=request.messages,
        params={**params, "seed": request.seed, limit: request.max_tokens, "response_format": form},
    )


def environment_for(endpoint: Endpoint, environment: Mapping[str, str] | None = None) -> dict[str, str]:
    """What `ModelClient` needs to reach an endpoint: its address and the key.

    A provider's key goes to that provider, and to the address that its own variable names; every other address takes
    the key of ETHOGRAM_JUDGE_API_KEY, and one on this machine needs none. Raises `BadUsage` where no key is at hand.
    """
    given = dict(os.environ if environment is None else environment)
    name = "ANTHROPIC" if endpoint.protocol == "anthropic-messages" else "OPENAI"
    base = given.get(f"{name}_BASE_URL") or OFFICIAL[endpoint.protocol]
    address = endpoint.address or base
    key = given.get(KEY_NAME)
    if not key and _host(address) in (_host(base), _host(OFFICIAL[endpoint.protocol])):
        key = given.get(f"{name}_API_KEY")
    if not key and _host(address)[0] in LOOPBACK:
        key = "not-needed"
    if not key:
        where = f"{name}_API_KEY" if endpoint.address is None else KEY_NAME
        raise BadUsage(f"the judge's model at {address} needs a key: set {where}")
    return {f"{name}_BASE_URL": address, f"{name}_API_KEY": key}


def _host(address: str) -> tuple[str, int | None]:
    parts = urlsplit(address)
    return parts.hostname or "", parts.port


def _words(reply: ModelReply) -> str:
    """The answer: the arguments of the forced call, else the text."""
    for part in reply.message.parts:
        if isinstance(part, ToolCall):
            return part.arguments
    return reply.message.text
