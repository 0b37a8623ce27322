"""Model calls of marked tests are recorded through the gateway, and answered from the baseline in a replay."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb  # noqa: F401 - pytester forgets what a session imports first, and compiled modules load once
import openai
import pytest
import scipy.special  # noqa: F401

from ethogram.store import Run, open_home
from ethogram.testing import protocol, summary  # noqa: F401
from ethogram.testing.session import baseline_of
from ethogram.wire.gateway.call import ModelReply, ModelRequest
from ethogram.worlds.model_server import ModelServer, serve_model, text_reply

pytest_plugins = ["pytester"]
assert openai.OpenAI

SHOP = """
import ethogram as eth
from openai import OpenAI

client = OpenAI(max_retries=0)  # made while the module is imported, as many do

@eth.tool
def price(item):
    return {"tea": 6}[item]

def ask(question):
    found = price("tea")
    asked = [{"role": "user", "content": f"{question} It costs {found}."}]
    return client.chat.completions.create(model="gpt-4o-mini", messages=asked).choices[0].message.content
"""
CLOSING = """
import sys

def pytest_unconfigure():
    if "shop" in sys.modules:
        sys.modules["shop"].client.close()
"""
TESTS = """
import pytest
from shop import ask

@pytest.mark.ethogram(k=3)
def test_tea(episode):
    episode.answer = ask("How much is the tea?")
    noted = episode.tool("note", lambda text: len(text), text=episode.answer)
    assert noted == len(episode.answer)
    assert "6" in episode.answer
"""


def every_third_fails() -> Iterator[str]:
    while True:
        yield from ("6 coins", "no idea", "It is 6.")


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    said = every_third_fails()

    def reply(request: ModelRequest) -> ModelReply:
        return text_reply(next(said))

    for name in ("CI", "ETHOGRAM_HOME"):
        monkeypatch.delenv(name, raising=False)
    with serve_model(reply) as running:
        for name, value in running.variables().items():
            monkeypatch.setenv(name, value)
        yield running


@pytest.fixture
def project(pytester: pytest.Pytester, server: ModelServer) -> pytest.Pytester:
    """A project with a baseline of three attempts, the second of which failed."""
    pytester.makepyfile(shop=SHOP, test_shop=TESTS)
    pytester.makeconftest(CLOSING)  # sessions in this process would leave their connections to other tests
    pytester.syspathinsert()
    result = pytester.runpytest("--ethogram-run=main")
    result.stdout.fnmatch_lines(["RECORDED  main is the baseline 'pytest' now: 1 test, 2 of 3 attempts passed"])
    assert len(server.calls) == 3
    return pytester


def run_of(project: pytest.Pytester, name: str) -> Run:
    return open_home(str(project.path / ".ethogram")).run(name)


def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"):
        monkeypatch.delenv(name, raising=False)


def test_model_calls_and_tools_are_steps_of_the_trace(project: pytest.Pytester) -> None:
    run = run_of(project, "main")
    trace = next(run.trace(e) for e in run.entries if e.head.attempt == 0)
    assert [(s.kind, s.name) for s in trace.steps] == [("tool", "price"), ("model", "chat"), ("tool", "note")]
    assert (trace.answer, trace.steps[1].model) == ("6 coins", "gpt-4o-mini")
    assert all(e.totals.cost_usd is not None for e in run.entries)


def test_ci_replays_without_a_key_and_a_failure_of_the_record_is_no_news(
    project: pytest.Pytester, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    offline(monkeypatch)
    monkeypatch.setenv("CI", "true")
    result = project.runpytest("--ethogram-run=again")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(
        [
            "test_shop.py 2/3 *",
            "REPLAYED  main: 1 test, 3 attempts answered from the record; no deviation",
            "a verdict on pass rates needs --ethogram-live",
        ]
    )
    assert len(server.calls) == 3
    assert run_of(project, "again").info.kind == "replay"
    # a replay is no baseline, nor a sample: the next session is held against the recorded one
    monkeypatch.delenv("CI")
    assert project.runpytest("--ethogram-replay").ret == pytest.ExitCode.OK


def test_a_replay_of_a_test_that_never_passed_is_no_success(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.makepyfile(test_shop=TESTS.replace('"6" in', '"sixty" in'))
    assert project.runpytest("--ethogram-run=never", "--ethogram-update").ret == pytest.ExitCode.TESTS_FAILED
    offline(monkeypatch)
    result = project.runpytest("--ethogram-replay", "--ethogram-baseline=never")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["0 of 3 attempts passed: AssertionError: *", "REPLAYED  never: *1 of 1 test failed"])


def test_another_request_is_a_deviation(project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    offline(monkeypatch)
    project.makepyfile(shop=SHOP.replace("It costs", "The price is"))
    result = project.runpytest_subprocess("--ethogram-replay")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["attempt 0: deviation: *", "*It costs 6*", "REPLAYED  main: *1 of 1 test failed"])


def test_a_stricter_test_fails_on_the_same_answers(project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    offline(monkeypatch)
    project.makepyfile(test_shop=TESTS.replace('"6" in', '"coins" in'))
    result = project.runpytest("--ethogram-replay")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["attempt 2 passed when it was recorded, and fails on the same answers: AssertionError: *"]
    )
    result.stdout.no_fnmatch_line("attempt 1 passed when*")


def test_a_test_that_was_never_recorded_cannot_be_replayed(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    offline(monkeypatch)
    project.makepyfile(test_shop=TESTS.replace("test_tea", "test_new"))
    result = project.runpytest("--ethogram-replay")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["the baseline 'main' has no attempt of test_shop.py::test_new; record it with: *"])


def test_a_replay_without_a_baseline_says_what_to_do(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CI", "1")
    pytester.makepyfile("import pytest\n\n@pytest.mark.ethogram\ndef test_one():\n    pass\n")
    result = pytester.runpytest("--ethogram-home=elsewhere")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["there is no baseline 'pytest' in elsewhere to answer from; record one with: *"])
    assert not (pytester.path / "elsewhere" / "runs").exists()


def test_the_cap_on_dollars_is_a_hard_stop(project: pytest.Pytester, server: ModelServer) -> None:
    made = len(server.calls)
    result = project.runpytest_subprocess("--ethogram-max-usd=0.0000001", "--ethogram-run=capped", "--ethogram-update")
    assert len(server.calls) == made, "no call fits below it"
    result.stdout.fnmatch_lines(["*0 of 0 attempts passed, * missing*"])
    assert {e.head.outcome.reason for e in run_of(project, "capped").entries if hasattr(e.head.outcome, "reason")} == {
        "cap.experiment"
    }


def test_an_unreachable_provider_is_no_failure_of_the_agent(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    monkeypatch.setattr("ethogram.harness.executor.BACKOFF_SECONDS", 0.01)
    result = project.runpytest("--ethogram-k=1", "--ethogram-run=down", "--ethogram-update")
    result.stdout.fnmatch_lines(
        [
            "test_shop.py 0/0 *",
            "UNDECIDED  down: 0 of 0 attempts passed, 1 missing; the provider was not reached in 1 of 1 attempts, so *",
        ]
    )
    (entry,) = run_of(project, "down").entries
    assert entry.head.outcome.reason == "infrastructure.provider.unreached"
    # nothing can be held against it, so the earlier baseline stays the one
    found = baseline_of(open_home(str(project.path / ".ethogram")), "pytest")
    assert found is not None
    assert found.name == "main"
