"""The web application: pages, the API of `api.ROUTES`, live events, and OTLP where a receiver is given."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from hashlib import blake2b
from importlib import resources
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from ethogram.errors import BadInput, BadUsage, EthogramError, NotFound, Refused, Sealed
from ethogram.store import Home
from ethogram.store.shown_texts import shown
from ethogram.wire.access import Access
from ethogram.wire.asgi import Receive, Scope, Send

from .api import EVENTS, ROUTES, ApiRoute, rule_of
from .guard import Guard
from .library import Library
from .models.runs import RunsQuery, runs_view

POLL_SECONDS = 1.0
"""How often the home is looked at for changes while somebody watches."""
BEAT_SECONDS = 15.0
"""How long an event stream may say nothing: proxies close silent ones."""
WARM_SECONDS = 0.2
KEPT_BYTES = 64 << 20
TYPES = {".js": "text/javascript", ".css": "text/css", ".html": "text/html", ".svg": "image/svg+xml"}

_LOG = logging.getLogger(__name__)

TaggedFile = tuple[bytes, str]
"""What is sent, and the mark by which a browser knows that it has it already."""
Asgi = Callable[[Scope, Receive, Send], Awaitable[None]]


class HomeChange(msgspec.Struct, frozen=True, kw_only=True):
    """What an event says: runs that changed or came, and runs that are gone."""

    changed: list[str]
    gone: list[str]


class ApiProblem(msgspec.Struct, frozen=True, kw_only=True):
    """What an answer says when there is none: one sentence."""

    error: str


class WebApp:
    """The viewer of a home as an ASGI application; `receiver` takes the routes of OTLP, and guards them itself."""

    def __init__(self, home: Home, access: Access, receiver: Asgi | None = None) -> None:
        """Nothing is read yet. `access` decides who may ask."""
        self.library = Library(home)
        self._receiver = receiver
        self._assets = _assets()
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[str, ...], TaggedFile] = OrderedDict()
        self._kept_bytes = 0
        self._asked = 0
        routes = [Route(r.path, self._endpoint(r), methods=[r.method]) for r in ROUTES if r.scope != "ingest"]
        self._app = Guard(Starlette(routes=routes), rule_of, access)
        self._ingest = {r.path for r in ROUTES if r.scope == "ingest"}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if self._receiver is not None and scope["path"] in self._ingest:
            await self._receiver(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    def warm(self) -> None:
        """Read what the list of runs shows, and import what that needs, before anybody asks; who asks goes first."""
        while self._asked:
            time.sleep(WARM_SECONDS)
        with suppress(EthogramError):
            runs_view(self.library, RunsQuery())

    def _endpoint(self, route: ApiRoute) -> Callable[[Request], Awaitable[Response]]:
        if route.path == EVENTS:
            return self._events
        if route.view is None:
            return self._asset
        kind = route.query

        async def answered(request: Request) -> Response:
            self._asked += 1
            try:
                query = await _query(request, kind)
                body, mark = await run_in_threadpool(self._answer, route, query)
            except (NotFound, Refused) as error:  # there is nothing, or not enough, to answer from
                return _problem(404, error)
            except (BadUsage, BadInput, Sealed) as error:
                return _problem(403 if isinstance(error, Sealed) else 400, error)
            except EthogramError as error:
                return _problem(500, error)
            except Exception:
                _LOG.exception("%s could not be answered", route.path)
                return _problem(
                    500, f"{route.path} could not be answered because of a bug in the viewer; see its terminal"
                )
            finally:
                self._asked -= 1
            head = {"etag": mark}
            if request.headers.get("if-none-match") == mark:
                return Response(status_code=304, headers=head)
            return Response(body, media_type="application/json", headers=head)

        return answered

    def _answer(self, route: ApiRoute, query: msgspec.Struct) -> TaggedFile:
        """The answer as JSON; one about a run is kept as long as its ledger does not change."""
        assert route.view is not None
        run = getattr(query, "run", None)
        if route.method != "GET" or not isinstance(run, str):
            return _marked(msgspec.json.encode(route.view(self.library, query)))
        key = (route.path, self.library.state(run), msgspec.json.encode(query).decode())
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        answer = _marked(msgspec.json.encode(route.view(self.library, query)))
        with self._lock:
            before = self._kept.get(key)
            self._kept_bytes += len(answer[0]) - (0 if before is None else len(before[0]))
            self._kept[key] = answer
            while self._kept_bytes > KEPT_BYTES:
                self._kept_bytes -= len(self._kept.popitem(last=False)[1][0])
        return answer

    async def _asset(self, request: Request) -> Response:
        name = request.path_params.get("name", "index.html")
        found = self._assets.get(name)
        if found is None:
            return _problem(404, f"there is no file {name!r}")
        body, mark = found
        head = {"etag": mark}
        if request.headers.get("if-none-match") == mark:
            return Response(status_code=304, headers=head)
        ending = name[name.rindex(".") :]
        return Response(body, media_type=TYPES.get(ending, "application/octet-stream"), headers=head)

    async def _events(self, request: Request) -> Response:
        return StreamingResponse(self._changes(), media_type="text/event-stream")

    async def _changes(self) -> AsyncIterator[bytes]:
        before = await run_in_threadpool(self.library.states)
        yield b"retry: 1000\nevent: hello\ndata: {}\n\n"
        silent = 0.0
        while True:
            await asyncio.sleep(POLL_SECONDS)
            now = await run_in_threadpool(self.library.states)
            changed = [name for name, state in now.items() if before.get(name) != state]
            gone = [name for name in before if name not in now]
            before, silent = now, silent + POLL_SECONDS
            if changed or gone:
                change = HomeChange(changed=changed, gone=gone)
                yield b"event: change\ndata: " + msgspec.json.encode(change) + b"\n\n"
                silent = 0.0
            elif silent >= BEAT_SECONDS:
                yield b": still here\n\n"
                silent = 0.0


def _problem(status: int, error: EthogramError | str) -> Response:
    body = msgspec.json.encode(ApiProblem(error=shown(str(error))))
    return Response(body, status_code=status, media_type="application/json")


async def _query(request: Request, kind: Any) -> Any:
    """The query of a request, typed; raises `BadUsage` for one that does not fit."""
    try:
        if request.method == "GET":
            return msgspec.convert(dict(request.query_params), kind, strict=False)
        return msgspec.json.decode(await request.body(), type=kind)
    except msgspec.MsgspecError as error:
        raise BadUsage(f"the request cannot be read: {error}") from None


def _marked(body: bytes) -> TaggedFile:
    return body, f'"{blake2b(body, digest_size=12).hexdigest()}"'


def _assets() -> dict[str, TaggedFile]:
    """The built front end: file names to bytes and etag."""
    found: dict[str, TaggedFile] = {}
    folder = resources.files("ethogram.viewer") / "static"
    for place in (folder, folder / "assets"):
        for file in place.iterdir():
            if file.is_file():
                found[file.name] = _marked(file.read_bytes())
    return found
