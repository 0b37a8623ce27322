"""Make the pictures of README and docs: viewer and report of a demonstration run, photographed in a real browser.

python scripts/make_pictures.py        needs chromium and the extra `charts`; `make pictures` runs it
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[1]
ASSETS = ROOT / "docs" / "assets"
DESK = "ethogram.worlds.desk"


class Shot(NamedTuple):
    """A picture: its file, the page, what must be there before, and how large it is."""

    file: str
    page: str
    ready: str
    scheme: str = "light"
    width: int = 1280
    height: int = 900


SHOTS = (
    Shot("view-run.png", "#/run?run=desk", ".reasons li", height=1080),
    Shot("view-run-dark.png", "#/run?run=desk", ".reasons li", "dark", height=1080),
    Shot("view-trace.png", "#/trace?run=desk&trace={trace}&step={step}", ".step.current"),
    Shot("view-trace-dark.png", "#/trace?run=desk&trace={trace}&step={step}", ".step.current", "dark"),
)
REPORT = Shot(
    "report.png", "#/trace?run=desk&trace={trace}&step={step}&beside=yes", ".passing .step", width=1240, height=1100
)


def main() -> int:
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        print("a browser is needed: make browser", file=sys.stderr)
        return 1
    from playwright.sync_api import sync_playwright

    ASSETS.mkdir(parents=True, exist_ok=True)
    with demonstration() as (address, paper, place), sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for shot in SHOTS:
            take(browser, f"{address}/{shot.page.format(**place)}", shot)
        take(browser, f"{paper}{REPORT.page.format(**place)}", REPORT)
        browser.close()
    return 0


def take(browser: Any, address: str, shot: Shot) -> None:
    """One picture."""
    size = {"width": shot.width, "height": shot.height}
    page = browser.new_page(viewport=size, color_scheme=shot.scheme, reduced_motion="reduce")
    page.goto(address)
    page.wait_for_selector(shot.ready)
    page.locator(".ghost").first.wait_for(state="detached")
    page.wait_for_timeout(500)  # scrolling to the step that the address names
    page.screenshot(path=str(ASSETS / shot.file))
    page.close()
    print(f"wrote {(ASSETS / shot.file).relative_to(ROOT)}")


@contextmanager
def demonstration() -> Iterator[tuple[str, str, dict[str, str]]]:
    """A run with something to say: its failures have one cause, and one correlate. Gives where the viewer is, where the
    report is, and the trace and step that `why` would read first."""
    from ethogram.harness.suites import run
    from ethogram.prices import Metering
    from ethogram.prices.settings import price_list
    from ethogram.questions.why.question import why
    from ethogram.store import open_home
    from ethogram.viewer.report.report import report
    from ethogram.viewer.viewing import Viewer
    from ethogram.worlds import desk
    from ethogram.worlds.practice import provided

    with tempfile.TemporaryDirectory() as scratch:
        os.environ["ETHOGRAM_HOME"] = scratch  # commands in the picture then name no folder of this machine
        with provided(desk.model):
            priced = Metering(prices=price_list(None, ("*=2/8",)).own)
            run(DESK, f"{DESK}:clerk", k=20, run="desk", metering=priced)
        first = why("desk").causes[0].examples[0]
        report("desk", Path(scratch) / "report.html")
        viewer = Viewer(open_home(scratch))
        viewer.start()
        place = {"trace": first.trace, "step": str(first.step)}
        try:
            yield viewer.address, (Path(scratch) / "report.html").as_uri(), place
        finally:
            viewer.close()


if __name__ == "__main__":
    sys.exit(main())
