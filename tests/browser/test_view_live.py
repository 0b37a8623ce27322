"""The viewer while things happen: runs that come and grow, spans over OTLP, a server that dies and returns."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from ethogram.questions.logs.imports import import_logs
from ethogram.store import open_home
from ethogram.viewer.server import WebApp
from ethogram.viewer.viewing import Viewer
from ethogram.wire.receiver.serving import OtlpService, ServeSettings

pytestmark = pytest.mark.xdist_group("browser")


def other_log(folder: Path) -> Path:
    talk = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "hi"}]
    log = folder / "more.json"
    log.write_text(json.dumps([{"task_id": 1, "trial": 0, "reward": 1.0, "info": {}, "traj": talk}]))
    return log


def otlp_span(name: str, trace: str, span: str) -> dict[str, Any]:
    return {
        "traceId": trace,
        "spanId": span,
        "name": name,
        "startTimeUnixNano": "1700000000000000000",
        "endTimeUnixNano": "1700000001000000000",
        "attributes": [{"key": "gen_ai.operation.name", "value": {"stringValue": "chat"}}],
    }


def test_a_run_that_comes_is_shown_without_a_reload(
    open_page: Callable[..., Any], serve_home: Callable[[Path], str], night_home: Path
) -> None:
    page = open_page(serve_home(night_home))
    page.wait_for_selector("td.name >> text=night")
    page.wait_for_selector(".status.live")
    import_logs(other_log(night_home.parent), run="later", home=str(night_home))
    page.wait_for_selector("td.name >> text=later")
    shutil.rmtree(night_home / "runs" / "later")
    page.wait_for_selector("td.name >> text=later", state="detached")


def test_spans_that_arrive_are_seen_on_the_port_that_takes_them(open_page: Callable[..., Any], tmp_path: Path) -> None:
    home = open_home(str(tmp_path / "home"))
    settings = ServeSettings(port=0, settle=0.1)
    service = OtlpService(home, settings, print, lambda receiver, access: WebApp(home, access, receiver))
    address = service.start().address
    try:
        page = open_page(f"{address}/#/run?run=live")
        page.wait_for_selector(".empty >> text=No episode yet")
        spans = [otlp_span("chat", f"{i:032x}", f"{i:016x}") for i in range(1, 4)]
        body = {"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}
        reply = httpx.post(f"{address}/v1/traces", json=body, timeout=20)
        assert reply.status_code == 200
        page.wait_for_selector(".figures >> text=3 episodes")
        page.wait_for_selector(".tag.live >> text=running")
        page.close()
    finally:
        service.close()


def test_a_server_that_dies_and_returns(open_page: Callable[..., Any], night_home: Path) -> None:
    home = open_home(str(night_home))
    first = Viewer(home)
    first.start()
    port = int(first.address.rpartition(":")[2])
    page = open_page(f"{first.address}/#/runs")
    page.wait_for_selector(".status.live")
    page.wait_for_selector("td.name")
    first.close()
    page.wait_for_selector(".banner")
    assert "ethogram view" in page.locator(".banner").inner_text()
    assert page.locator("td.name").count() >= 1, "what was read stays"
    second = Viewer(home, port)
    second.start()
    page.wait_for_selector(".banner", state="detached")
    page.locator("td.name a").first.click()
    page.wait_for_selector(".figures")
    page.close()
    second.close()
    refused = "ERR_CONNECTION_REFUSED"
    others = [p for p in open_page.problems if refused not in p]  # type: ignore[attr-defined]
    open_page.problems[:] = [p for p in others if "INCOMPLETE_CHUNKED" not in p]  # type: ignore[attr-defined]
