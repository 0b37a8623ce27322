"""Make the pictures of README and docs: the report of a demonstration run, photographed in a real browser.

python scripts/make_pictures.py        needs chromium and the extra `charts`; `make pictures` runs it
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
ASSETS = ROOT / "docs" / "assets"
HEIGHT = 1500


def main() -> int:
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        print("a browser is needed: make browser", file=sys.stderr)
        return 1
    from playwright.sync_api import sync_playwright

    from ethogram.run.suites import run_suite
    from ethogram.show.report import report
    from ethogram.worlds.practice import practice

    ASSETS.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        chosen = practice()
        name = run_suite(chosen.suite, chosen.agent, k=5, workers=2, name="demo", home=scratch).run
        page_file = Path(scratch) / "report.html"
        report(name, page_file, home=scratch)
        with sync_playwright() as driver:
            browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
            page = browser.new_page(viewport={"width": 1040, "height": HEIGHT}, color_scheme="light")
            page.goto(page_file.as_uri())
            page.screenshot(path=str(ASSETS / "report.png"), clip={"x": 0, "y": 0, "width": 1040, "height": HEIGHT})
            browser.close()
    print(f"wrote {(ASSETS / 'report.png').relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
