"""The web application without a browser: every route answers what its type says, errors are sentences."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from ethogram.questions.calibration.labels import label
from ethogram.questions.judging.buying.runs import judge_run
from ethogram.questions.judging.buying.session import JudgeOptions
from ethogram.questions.logs.imports import import_logs
from ethogram.store import open_home
from ethogram.viewer.api import ROUTES, api_routes
from ethogram.viewer.viewing import Viewer


def attempt(task: int, trial: int) -> dict[str, Any]:
    good = trial == 0
    call = {"name": "ring", "arguments": "{}"}
    talk = [
        {"role": "user", "content": "ring the bell " + "x" * 3000},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "c", "type": "function", "function": call}]},
        {"role": "tool", "tool_call_id": "c", "name": "ring", "content": "ding" if good else "Error: no bell"},
        {"role": "assistant", "content": "done"},
    ]
    return {"task_id": task, "trial": trial, "reward": float(good), "info": {}, "traj": talk}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("server")
    (folder / "log.json").write_text(json.dumps([attempt(t, k) for t in range(4) for k in range(2)]))
    for run in ("chimes", "bells"):
        import_logs(folder / "log.json", run=run, home=str(folder / "home"))
    judge_run("bells", JudgeOptions(judge="rule"), home=str(folder / "home"))
    label("bells", sample=8, home=str(folder / "home"))
    return folder / "home"


@pytest.fixture(scope="module")
def web(home: Path) -> Iterator[httpx.Client]:
    viewer = Viewer(open_home(str(home)))
    viewer.start()
    with httpx.Client(base_url=viewer.address, timeout=60) as client:
        yield client
    viewer.close()


@pytest.fixture(scope="module")
def trace(home: Path) -> str:
    return str(open_home(str(home)).resolve("bells").entries[1].head.trace_id)


OF_OTHER_KINDS = {"/api/explore", "/api/explore/slice", "/api/perturbation"}


@pytest.mark.parametrize("route", [r for r in api_routes() if r.method == "GET"], ids=lambda r: r.path)
def test_every_route_answers_with_its_type(web: httpx.Client, trace: str, route: Any) -> None:
    given = {"run": "bells", "trace": trace, "step": 1, "part": 0, "text": "ring"}
    given |= {"against": "chimes", "other": trace, "item": "rubric/termination", "task": "0", "exploration": "bells"}
    reply = web.get(route.path, params=given)
    if route.path in OF_OTHER_KINDS:  # tests/browser asks these of an exploration and of an experiment
        assert reply.status_code in (400, 404)
        assert "ethogram" in reply.json()["error"], "it says what to type"
        return
    assert reply.status_code == 200, reply.text
    assert reply.headers["content-security-policy"].startswith("default-src 'none'")
    msgspec.json.decode(reply.content, type=route.answer)
    again = web.get(route.path, params=given, headers={"if-none-match": reply.headers["etag"]})
    assert again.status_code in (200, 304)


def test_no_route_takes_an_empty_run_for_a_failure_of_the_server(tmp_path: Path) -> None:
    lake = open_home(str(tmp_path))
    lake.create("empty", "run")
    viewer = Viewer(lake)
    viewer.start()
    given = {"trace": "t", "step": 1, "part": 0, "text": "x", "item": "rubric/termination", "exploration": "empty"}
    given |= {"run": "empty", "against": "empty", "other": "t", "task": "0"}
    with httpx.Client(base_url=viewer.address, timeout=60) as client:
        asked = {r.path: client.get(r.path, params=given) for r in api_routes() if r.method == "GET"}
        cloud = client.get("/api/field/cloud", params={"run": "empty"})
    viewer.close()
    assert {path: reply.text for path, reply in asked.items() if reply.status_code not in (200, 400, 404)} == {}
    assert cloud.status_code == 404
    assert "no scored trace to measure (it is empty)" in cloud.text


def test_a_page_is_not_sent_twice(web: httpx.Client) -> None:
    page = web.get("/")
    assert "script-src 'self'" in page.headers["content-security-policy"]
    assert "<script>" not in page.text
    assert "style=" not in page.text
    assert web.get("/", headers={"if-none-match": page.headers["etag"]}).status_code == 304


@pytest.mark.parametrize(
    ("path", "status", "said"),
    [
        ("/api/run?run=nowhere", 404, "named 'nowhere'"),
        ("/api/run?run=../bells", 404, "named '../bells'"),
        ("/api/trace?run=bells&trace=zzz", 404, "no trace 'zzz'"),
        ("/api/trace?run=bells", 400, "missing required field `trace`"),
        ("/api/trace/cards?run=bells&trace=TRACE&only=all", 400, "Invalid enum value 'all'"),
        ("/api/trace/text?run=bells&trace=TRACE&step=99&part=0", 404, "has no step 99"),
        ("/api/trace/find?run=bells&trace=TRACE&text=%20", 400, "nothing to look for"),
        ("/assets/..%2fserver.py", 400, "no route has"),
        ("/etc/passwd", 404, ""),
    ],
)
def test_bad_requests_get_one_sentence(web: httpx.Client, trace: str, path: str, status: int, said: str) -> None:
    reply = web.get(path.replace("TRACE", trace))
    assert reply.status_code == status
    assert said in reply.text
    assert "Traceback" not in reply.text


def test_a_page_of_another_host_is_refused(web: httpx.Client) -> None:
    assert web.get("/api/runs", headers={"host": "evil.example"}).status_code == 403
    assert web.get("/api/runs", headers={"origin": "https://evil.example"}).status_code == 403
    assert web.post("/api/runs").status_code in (404, 405)


def test_long_texts_come_in_slices(web: httpx.Client, trace: str) -> None:
    cards = web.get("/api/trace/cards", params={"run": "bells", "trace": trace}).json()
    (part,) = cards["cards"][0]["steps"][0]["parts"]
    assert part["chars"] == len("ring the bell ") + 3000
    assert len(part["text"]) < part["chars"]
    place = {"run": "bells", "trace": trace, "step": 0, "part": 0}
    slices = [
        web.get("/api/trace/text", params={**place, "first": f, "count": 1000}).json()["text"]
        for f in range(0, 4000, 1000)
    ]
    assert "".join(slices) == "ring the bell " + "x" * 3000


def test_neighbours_follow_the_filter(web: httpx.Client, trace: str) -> None:
    listed = web.get("/api/run/attempts", params={"run": "bells", "filter": "is:failed"}).json()
    failed = [cell["trace"] for row in listed["rows"] for cell in row["cells"]]
    assert len(failed) == 4
    near = web.get("/api/trace/neighbours", params={"run": "bells", "trace": failed[1], "filter": "is:failed"}).json()
    assert (near["at"], near["of"], near["previous"], near["next"]) == (2, 4, failed[0], failed[2])
    assert [cell["state"] for cell in near["siblings"]] == ["passed", "failed"]


def test_an_answer_follows_the_ledger(web: httpx.Client, home: Path) -> None:
    def episodes() -> int:
        return int(web.get("/api/run", params={"run": "grows"}).json()["overview"]["episodes"])

    log = home.parent / "grows.json"
    for count in (1, 2):
        log.write_text(json.dumps([attempt(9, k) for k in range(count)]))
        import_logs(log, run="grows", home=str(home))
        assert episodes() == count


def test_the_table_names_a_scope_for_every_route() -> None:
    assert {r.scope for r in ROUTES} <= {"open", "metadata", "payloads", "write", "ingest"}
    assert len({(r.path, r.method) for r in ROUTES}) == len(ROUTES)
    assert all(r.scope == "write" for r in api_routes() if r.method == "POST")


def test_many_readers_at_once_get_their_answers(web: httpx.Client, home: Path) -> None:
    traces = [entry.head.trace_id for entry in open_home(str(home)).resolve("bells").entries]
    paths = [
        f"{path}?run=bells&trace={trace}"
        for trace in traces
        for path in ("/api/trace", "/api/trace/cards", "/api/trace/outline", "/api/run/why", "/api/run/attempts")
    ]
    with ThreadPoolExecutor(32) as readers:
        replies = list(readers.map(web.get, paths))
    assert [r.status_code for r in replies] == [200] * len(paths)
    cards = [r.json() for r, path in zip(replies, paths, strict=True) if path.startswith("/api/trace/cards")]
    assert all(view["of"] == 3 for view in cards)
