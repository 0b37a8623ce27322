"""`ethogram view`: serves the web application until it is stopped."""

from __future__ import annotations

import asyncio
import sys
import threading
import webbrowser
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlencode, urlsplit

import msgspec

from ethogram.errors import BadUsage
from ethogram.result import Result
from ethogram.store import Home, open_home
from ethogram.store.tokens import Tokens
from ethogram.wire.access import Access, ListenSettings
from ethogram.wire.gateway.server import ServerThread
from ethogram.wire.stopping import StopEvent, on_stop_signals

from .server import WebApp

VIEW_PORT = 7420
SWITCH_SECONDS = 0.001
"""How long a long answer may hold up the short ones each time."""


class ViewResult(Result, kw_only=True):
    """Where the viewer is, and the run that it opens with; `taken` is its usual port, if another program has that."""

    address: str
    home: str
    run: str | None = None
    taken: int | None = None


class Viewer:
    """A viewer that serves in a thread of its own."""

    def __init__(self, home: Home, port: int = 0, listen: ListenSettings | None = None) -> None:
        """Binds at once, by default on loopback.

        Raises `BadUsage` where the port is taken, and for an address that needs a token where there is none.
        """
        settings = listen or ListenSettings()
        access = Access(Tokens(home.files), settings)
        access.check_start(["metadata"])
        self._app = WebApp(home, access)
        self._server = ServerThread(self._app, host=settings.host, port=port, what="the viewer")
        self.address = self._server.address

    def start(self) -> None:
        """Begin to serve; what the first page needs is read meanwhile."""
        self._server.start()
        threading.Thread(target=self._app.warm, name="ethogram-warm").start()

    def close(self) -> None:
        """End; open event streams are closed."""
        self._server.close(asyncio.sleep(0))


class ViewSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Which run to open, and where to listen."""

    run: str | None = None
    port: int = VIEW_PORT
    listen: ListenSettings = ListenSettings()


def view_until_stopped(
    home: Home, settings: ViewSettings, ready: Callable[[ViewResult], None], *, open_browser: bool
) -> ViewResult:
    """Serve until SIGINT or SIGTERM; `ready` is called with the address. Raises `NotFound` for an unknown run."""
    home, name = _chosen(home, settings.run)
    viewer = _viewer(home, settings)
    port = urlsplit(viewer.address).port
    taken = settings.port if settings.port not in (0, port) else None
    result = ViewResult(address=page_address(viewer.address, name), home=home.files.address, run=name, taken=taken)
    over = StopEvent()
    turns = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_SECONDS)
    try:
        with on_stop_signals(over.set):
            viewer.start()
            ready(result)
            if open_browser:
                with suppress(webbrowser.Error):
                    webbrowser.open(result.address)
            try:
                over.wait()
            finally:
                viewer.close()
    finally:
        sys.setswitchinterval(turns)
    return result


def _chosen(home: Home, run: str | None) -> tuple[Home, str | None]:
    """The home to show and the run to open: a directory of a run is shown with the home that it lies in."""
    if run is None:
        return home, None
    found = home.resolve(run)
    if found.files is home.files:
        return home, found.name
    place = Path(run).absolute()
    if place.parent.name != "runs":
        raise BadUsage(f"{run!r} is not in a home: a run is a folder HOME/runs/NAME; name its home with --home")
    return open_home(str(place.parent.parent)), found.name


def page_address(address: str, run: str | None) -> str:
    """The address of the list of runs, or of one run."""
    return f"{address}/" if run is None else f"{address}/#/run?{urlencode({'run': run})}"


def _viewer(home: Home, settings: ViewSettings) -> Viewer:
    """On the usual port, or on a free one where somebody else has that."""
    try:
        return Viewer(home, settings.port, settings.listen)
    except BadUsage:
        if settings.port != VIEW_PORT:
            raise
        return Viewer(home, 0, settings.listen)
