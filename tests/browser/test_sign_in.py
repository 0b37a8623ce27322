"""Signing in with a token in a real browser, and what a token of one scope sees."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ethogram.store import open_home
from ethogram.store.tokens import Tokens
from ethogram.viewer.viewing import Viewer
from ethogram.wire.access import ListenSettings

pytestmark = pytest.mark.xdist_group("browser")


def test_a_deep_link_survives_signing_in(chromium: Any, night_home: Path) -> None:
    home = open_home(str(night_home))
    _, token = Tokens(home.files).create("reader", ["metadata"])
    viewer = Viewer(home, listen=ListenSettings(require_token=True))
    viewer.start()
    context = chromium.new_context()
    try:
        page = context.new_page()
        page.set_default_timeout(15_000)
        page.goto(f"{viewer.address}/#/run?run=night")
        page.fill("#token", "wrong")
        page.click("button")
        assert "not one of this home" in page.locator("[role=alert]").inner_text()
        page.fill("#token", token)
        page.click("button")
        page.wait_for_url("**/#/run?run=night")
        page.wait_for_selector("text=pass@1")
        alert = page.locator("[role=alert]", has_text="does not have the scope payloads").first
        alert.wait_for()  # numbers are shown, words are not
        (cookie,) = context.cookies()
        assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
        assert token not in page.url
        assert token not in page.evaluate("document.cookie")
    finally:
        context.close()
        viewer.close()
