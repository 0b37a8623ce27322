"""Which episode a request of this process belongs to.

Many episodes of a Python agent run in one process, with clients that were made when its module was imported. So the
token of an episode travels in a context variable, and while `Attribution` is installed, HTTP clients add it as a header
to what they send to the gateway. Threads and thread pools begin with an empty context: they are given it too.

Nothing of this holds for processes that an agent starts by itself; their base URLs carry the token instead.
"""

from __future__ import annotations

import functools
import importlib
import os
import re
import subprocess
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar, copy_context
from typing import Any, NamedTuple, Protocol
from urllib.parse import quote, urlsplit

from ethogram.wire.context import carrier, current_prompt_version, current_span

from .headers import EPISODE, EPISODE_VARIABLE, NO_EPISODE, PROMPT, SPAN
from .patching import LateImports, Patches

EPISODE_HEADER, SPAN_HEADER, PROMPT_HEADER = EPISODE.decode(), SPAN.decode(), PROMPT.decode()
_HOSTS = re.compile(
    r"api\.(openai|anthropic|groq|mistral|deepseek|together|fireworks|cohere|cerebras|x|perplexity)\.(com|ai|xyz)"
    r"|openrouter\.ai|router\.huggingface\.co|generativelanguage\.googleapis\.com|.*aiplatform\.googleapis\.com"
    r"|.*\.openai\.azure\.com|.*\.services\.ai\.azure\.com|bedrock-runtime[.-].*\.amazonaws\.com"
)
_ASIDE = ("/traces/", "/files", "/uploads", "/batches")
"""Paths of providers that are no calls of a model, such as the telemetry of a package."""


class Mark(Protocol):
    """What requests of an episode carry: its token, and its base URLs for processes that it starts.

    Both are asked for only when a request is made or a process is started: many episodes do neither.
    """

    @property
    def token(self) -> str:
        """The name of the episode at the gateway."""
        ...

    @property
    def variables(self) -> Mapping[str, str] | None:
        """Environment variables for its processes; None leaves theirs as they are."""
        ...


class FixedMark(NamedTuple):
    """A mark that is known beforehand."""

    token: str
    variables: Mapping[str, str] | None = None


_mark: ContextVar[Mark | None] = ContextVar("ethogram_episode", default=None)
ASIDE = FixedMark(NO_EPISODE)


class marked:
    """Requests that are made in this block, and in tasks and threads that it starts, belong to an episode."""

    __slots__ = ("_before", "_new")

    def __init__(self, mark: Mark) -> None:
        """A class, since every episode has two of these blocks and a generator costs more."""
        self._new = mark

    def __enter__(self) -> None:
        self._before = _mark.set(self._new)

    def __exit__(self, *_: object) -> None:
        _mark.reset(self._before)


class Sent(NamedTuple):
    """What becomes of a request: headers to add, and another address where it must go to the gateway instead."""

    headers: Mapping[str, str]
    url: str | None = None


UNCHANGED = Sent({})


class Attribution:
    """Marks what this process sends to one gateway; use `install` and `uninstall` around the work, any number of times.

    A request that goes straight to an upstream of the gateway, by a client that was made before the variables were set,
    is sent through the gateway where the library allows that. What passes by the gateway is told to `bypassed`.
    """

    def __init__(self, address: str, bypassed: Callable[[str | None, str], None]) -> None:
        """`address` is the gateway's, `bypassed` gets the token of the episode, if it is known, and the host."""
        parts = urlsplit(address)
        self.address = address
        self.host, self.port = parts.hostname or "", parts.port or 0
        self._bypassed = bypassed
        self._through: dict[str, str] = {}
        self._installed = 0
        self._lock = threading.Lock()
        self._patches = Patches()
        self._late = LateImports({name: functools.partial(patch, self) for name, patch in _LIBRARIES.items()})

    def redirect(self, upstreams: Mapping[str, str]) -> None:
        """Send what goes to these base URLs to others, which are the gateway's."""
        self._through.update(upstreams)

    def install(self) -> None:
        """Begin to mark requests of clients, also of libraries that are imported later."""
        with self._lock:
            self._installed += 1
            if self._installed > 1:
                return
            patches = self._patches
            patches.wrap(threading.Thread, "start", _starting)
            patches.wrap(ThreadPoolExecutor, "submit", _submitting)
            patches.wrap(subprocess.Popen, "__init__", self._opening)
            self._late.install(patches)

    def uninstall(self) -> None:
        """End it; the last one to leave undoes every change."""
        with self._lock:
            self._installed -= 1
            if self._installed == 0:
                self._late.uninstall()
                self._patches.undo()

    def to_gateway(self, host: str | None, port: int | None) -> bool:
        """Whether a request goes to the gateway itself."""
        return port == self.port and host == self.host

    def headers(self) -> Mapping[str, str]:
        """The headers of a request to the gateway, made now."""
        mark = _mark.get()
        if mark is None:
            return {}
        told = {
            EPISODE_HEADER: mark.token,
            SPAN_HEADER: current_span(),
            PROMPT_HEADER: _latin(current_prompt_version()),
        }
        return {name: value for name, value in told.items() if value is not None}

    def sent(self, method: str, url: str, *, movable: bool) -> Sent:
        """What to do with a request that does not go to the gateway; `movable` says if its address can be changed."""
        if method != "POST":
            return UNCHANGED
        base = next((base for base in self._through if url.startswith((f"{base}/", f"{base}?"))), None)
        parts = urlsplit(url)
        known = base is not None or _HOSTS.fullmatch(parts.hostname or "") is not None
        if not known or any(aside in parts.path for aside in _ASIDE):
            return UNCHANGED
        if base is None or not movable:
            mark = _mark.get()
            if mark is not ASIDE:
                self._bypassed(None if mark is None else mark.token, parts.hostname or "")
            return UNCHANGED
        return Sent({**self.headers(), "host": f"{self.host}:{self.port}"}, self._through[base] + url[len(base) :])

    def _opening(self, init: Callable[..., None]) -> Callable[..., None]:
        """Processes of an agent call the gateway under the token of its episode."""

        @functools.wraps(init)
        def opening(popen: Any, args: Any, *rest: Any, **options: Any) -> None:
            mark = _mark.get()
            variables = None if mark is None or rest else mark.variables
            if variables is not None:
                env = options.get("env")
                inherited = dict(os.environ if env is None else env)
                # of what the agent sets by itself, nothing is changed; MCP clients hand on a few variables only
                ours = {
                    name: value
                    for name, value in variables.items()
                    if str(inherited.get(name, self.address if name == EPISODE_VARIABLE else "")).startswith(
                        self.address
                    )
                }
                if ours:
                    options["env"] = {**inherited, **ours}
            init(popen, args, *rest, **options)

        return opening


def _starting(start: Callable[[threading.Thread], None]) -> Callable[[threading.Thread], None]:
    """Threads belong to the episode that starts them."""

    @functools.wraps(start)
    def starting(thread: threading.Thread) -> None:
        mark = _mark.get()
        if mark is not None:
            thread.run = _carrying(mark, thread.run)  # type: ignore[method-assign]
        start(thread)

    return starting


def _submitting(submit: Callable[..., Any]) -> Callable[..., Any]:
    """Work of a pool belongs to the episode that hands it in, not to the one whose work started the thread."""

    @functools.wraps(submit)
    def submitting(pool: ThreadPoolExecutor, function: Callable[..., Any], /, *args: Any, **options: Any) -> Any:
        return submit(pool, _carrying(_mark.get(), function), *args, **options)

    return submitting


def _carrying(mark: Mark | None, function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that runs as part of an episode; of the context, only what is ours is carried."""
    carry = carrier()

    def inside(*args: Any, **options: Any) -> Any:
        _mark.set(mark)
        with carry():
            return function(*args, **options)

    def carried(*args: Any, **options: Any) -> Any:
        return copy_context().run(inside, *args, **options)

    return carried


def _latin(version: str | None) -> str | None:
    """A version as a header can carry it."""
    return None if version is None else quote(version, safe=" !#$&'()*+,/:;=?@[]~")


def _patch_httpx(attribution: Attribution, library: Any, patches: Patches) -> None:
    """`httpx` and `httpx2`, on which the packages of OpenAI and Anthropic are built."""
    if library.__name__ != "httpx":
        # the gateway's thread needs it, and a client that meets a module which another thread is importing fails
        importlib.import_module("httpx")
    plain = (library.HTTPTransport, library.AsyncHTTPTransport)

    def prepare(client: Any, request: Any) -> None:
        url = request.url
        if attribution.to_gateway(url.host, url.port):
            request.headers.update(attribution.headers())
            return
        transport = getattr(client, "_transport", None)
        if isinstance(transport, library.MockTransport):  # nothing leaves this process
            return
        # proxies and transports of the user's own are chosen by address, so their requests keep it
        movable = isinstance(transport, plain) and not getattr(client, "_mounts", None)
        sent = attribution.sent(request.method, str(url), movable=movable)
        if sent.url is not None:
            request.url = type(url)(sent.url)
        request.headers.update(sent.headers)

    def sending(send: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(send)
        def sent(client: Any, request: Any, *args: Any, **options: Any) -> Any:
            prepare(client, request)
            return send(client, request, *args, **options)

        return sent

    def sending_later(send: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(send)
        async def sent(client: Any, request: Any, *args: Any, **options: Any) -> Any:
            prepare(client, request)
            return await send(client, request, *args, **options)

        return sent

    patches.wrap(library.Client, "send", sending)
    patches.wrap(library.AsyncClient, "send", sending_later)


def _patch_httpx2(attribution: Attribution, library: Any, patches: Patches) -> None:
    """`httpx2`: the packages on it look for an imported `httpx` at each call, and fail while it is only half imported.

    The gateway imports it with the first call that it forwards, in a thread of its own; so it is imported now, before
    any of them can call.
    """
    importlib.import_module("httpx")
    _patch_httpx(attribution, library, patches)


def _patch_http_client(attribution: Attribution, library: Any, patches: Patches) -> None:
    """`http.client`, on which `urllib`, `urllib3` and `requests` are built."""

    def putting(putrequest: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(putrequest)
        def put(connection: Any, method: str, url: str, *args: Any, **options: Any) -> Any:
            connection.ethogram_target = method, url
            return putrequest(connection, method, url, *args, **options)

        return put

    def ending(endheaders: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(endheaders)
        def ended(connection: Any, *args: Any, **options: Any) -> Any:
            if attribution.to_gateway(connection.host, connection.port):
                for name, value in attribution.headers().items():
                    connection.putheader(name, value)
            else:
                method, url = getattr(connection, "ethogram_target", ("", ""))
                attribution.sent(method, _address(connection, url), movable=False)
            return endheaders(connection, *args, **options)

        return ended

    patches.wrap(library.HTTPConnection, "putrequest", putting)
    patches.wrap(library.HTTPConnection, "endheaders", ending)


def _address(connection: Any, url: str) -> str:
    """The address of a request, which knows only its path unless it goes to a proxy."""
    if not url.startswith("/"):
        return url
    host = getattr(connection, "_tunnel_host", None) or connection.host
    port = getattr(connection, "_tunnel_port", None) or connection.port
    usual = {80: "http", 443: "https"}.get(port)
    return f"{usual}://{host}{url}" if usual else f"http://{host}:{port}{url}"


def _patch_aiohttp(attribution: Attribution, library: Any, patches: Patches) -> None:
    """`aiohttp`."""

    def sending(send: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(send)
        def sent(request: Any, *args: Any, **options: Any) -> Any:
            if attribution.to_gateway(request.url.host, request.url.port):
                request.headers.update(attribution.headers())
            else:
                attribution.sent(request.method, str(request.url), movable=False)
            return send(request, *args, **options)

        return sent

    patches.wrap(library.ClientRequest, "send", sending)


def _patch_opentelemetry(attribution: Attribution, library: Any, patches: Patches) -> None:
    """The SDK of OpenTelemetry: what the agent's instrumentors tell belongs to its episode too."""
    from ethogram.wire.otel.watching import watch_spans

    watch_spans(library, patches)


_LIBRARIES: dict[str, Callable[[Attribution, Any, Patches], None]] = {
    "httpx": _patch_httpx,
    "httpx2": _patch_httpx2,
    "http.client": _patch_http_client,
    "aiohttp": _patch_aiohttp,
    "opentelemetry.sdk.trace": _patch_opentelemetry,
}
