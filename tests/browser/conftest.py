"""A real browser and a real server over a real home, for the tests of the viewer's pages."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ethogram.questions.logs.imports import import_logs
from ethogram.store import open_home
from ethogram.viewer.viewing import Viewer

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
SLOWLY = """(() => {
  const wait = () => new Promise((done) => setTimeout(done, 400));
  const [listen, ask] = [addEventListener.bind(window), fetch.bind(window)];
  window.addEventListener = (name, act, ...rest) =>
    listen(name, name === "hashchange" ? (event) => wait().then(() => act(event)) : act, ...rest);
  window.fetch = (...given) => wait().then(() => ask(...given));
})();"""
REFUSED = "Error: the dictionary is <b>closed</b> today"


class SlowBrowser:
    """A browser whose pages answer late: a test that reads a page before it is drawn fails at once, not one day."""

    def __init__(self, browser: Any) -> None:
        self._browser = browser

    def new_context(self, **how: Any) -> Any:
        context = self._browser.new_context(**how)
        context.add_init_script(SLOWLY)
        return context

    def new_page(self, **how: Any) -> Any:
        page = self._browser.new_page(**how)
        page.add_init_script(SLOWLY)
        page.context.new_cdp_session(page).send("Emulation.setCPUThrottlingRate", {"rate": 6})
        return page


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """One browser for the tests of a module, as its driver keeps an event loop running in this thread.

    ETHOGRAM_SLOW_PAGES=1 makes its pages slow.
    """
    if CHROMIUM is None:
        pytest.skip("no chromium on this machine (apt-get install chromium)")
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright drives the browser")
    with playwright.sync_playwright() as driver:
        options = ["--no-sandbox", "--disable-gpu", "--disable-software-rasterizer"]
        opened = driver.chromium.launch(executable_path=CHROMIUM, args=options)
        yield SlowBrowser(opened) if os.environ.get("ETHOGRAM_SLOW_PAGES") else opened
        opened.close()


@pytest.fixture
def open_page(chromium: Any) -> Iterator[Callable[..., Any]]:
    """Opens an address; a page that errs, or that asks another server for something, fails the test at its end."""
    problems: list[str] = []
    opened: list[Any] = []

    def open_at(address: str, **how: Any) -> Any:
        page = chromium.new_page(**{"viewport": {"width": 1280, "height": 800}, **how})
        page.set_default_timeout(15_000)
        page.on("console", lambda m: problems.append(m.text) if m.type == "error" else None)
        page.on("pageerror", lambda error: problems.append(str(error)))
        host = address.split("/")[2]
        page.on("request", lambda r: problems.append(r.url) if r.url.split("/")[2] != host else None)
        page.goto(address)
        opened.append(page)
        return page

    open_at.problems = problems  # type: ignore[attr-defined]
    yield open_at
    for page in opened:
        page.close()
    assert problems == []


def wait_for_count(locator: Any, count: int) -> None:
    """The address changes before the page is drawn anew: what is counted after a change is waited for."""
    from playwright.sync_api import expect

    expect(locator).to_have_count(count, timeout=15_000)


@pytest.fixture(scope="module")
def serve_home() -> Iterator[Callable[[Path], str]]:
    """Serves homes; gives their addresses."""
    viewers: list[Viewer] = []

    def serve(home: Path) -> str:
        viewers.append(Viewer(open_home(str(home))))
        viewers[-1].start()
        return viewers[-1].address

    yield serve
    for viewer in viewers:
        viewer.close()


def attempt(task: int, trial: int) -> dict[str, Any]:
    """A failed attempt looks a word up that is refused; one that passes, a word that is found."""
    good = trial < 2
    call = {"name": "look_up", "arguments": json.dumps({"word": "yes" if good else "no"})}
    talk = [
        {"role": "user", "content": "say yes"},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "c", "type": "function", "function": call}]},
        {"role": "tool", "tool_call_id": "c", "name": "look_up", "content": "found it" if good else REFUSED},
        {"role": "assistant", "content": "yes" if good else "no"},
    ]
    return {"task_id": task, "trial": trial, "reward": float(good), "info": {}, "traj": talk}


@pytest.fixture(scope="module")
def night_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with one run `night`: 6 tasks, 4 attempts each, of which two pass."""
    folder = tmp_path_factory.mktemp("viewer")
    (folder / "log.json").write_text(json.dumps([attempt(t, k) for t in range(6) for k in range(4)]))
    import_logs(folder / "log.json", run="night", home=str(folder / "home"))
    return folder / "home"
