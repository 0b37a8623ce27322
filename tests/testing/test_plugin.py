"""A session of marked tests: it records a baseline, is held against it, and says what people need to know."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import duckdb  # noqa: F401 - pytester forgets what a session imports first, and compiled modules load once
import pytest
import scipy.special  # noqa: F401

from ethogram.store import Run, open_home
from ethogram.testing import protocol, summary  # noqa: F401
from ethogram.traces import Missing, Scored

pytest_plugins = ["pytester"]

DRAWN = """
import os
import pytest

RATE = float(os.environ.get("RATE", "1"))

@pytest.fixture(scope="module")
def shared():
    return []

@pytest.mark.ethogram(k=12)
@pytest.mark.parametrize("thing", ["tea", "milk"])
def test_price(episode, thing, tmp_path, shared, record_property):
    "How much is it?"
    assert not list(tmp_path.iterdir())
    (tmp_path / "left").write_text("x")
    shared.append(thing)
    record_property("shared", len(shared))
    episode.answer = f"{thing}: 6"
    episode.check("polite", True, "it said please", required=False)
    assert episode.rng.random() < RATE, "too dear"

@pytest.mark.ethogram(k=12)
def test_stable(episode):
    episode.check("short", True)

def test_plain():
    pass
"""


@pytest.fixture(autouse=True)
def nobody_is_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CI", "ETHOGRAM_HOME", "RATE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(autouse=True)
def properties_of_tests(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\njunit_family = xunit1\n")


def runs(pytester: pytest.Pytester) -> list[Run]:
    return list(open_home(str(pytester.path / ".ethogram")).runs())


def test_a_first_session_records_a_baseline(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_shop=DRAWN)
    result = pytester.runpytest("--junit-xml=j.xml", "--ethogram-run=main")
    result.assert_outcomes(passed=4)
    result.stdout.fnmatch_lines(
        [
            "test_shop.py 12/12 12/12 12/12 .*",
            "RECORDED  main is the baseline 'pytest' now: 3 tests, 36 of 36 attempts passed",
        ]
    )
    (run,) = runs(pytester)
    assert (run.info.kind, run.info.tags, len(run.entries)) == ("run", ("baseline:pytest",), 36)
    entry = next(e for e in run.entries if e.head.task == "test_shop.py::test_price[tea]" and e.head.attempt == 3)
    trace = run.trace(entry)
    assert (trace.answer, trace.head.outcome) == ("tea: 6", Scored(1.0, entry.head.outcome.by))
    assert {x.name: (x.value, trace.text(x.why) if x.why else "") for x in trace.labels} == {
        "test": (1.0, ""),
        "polite": (1.0, "it said please"),
    }
    # every attempt has fixtures of its own, and the module's are set up once for all of them
    cases = {c.get("name"): c for c in ET.parse(pytester.path / "j.xml").iter("testcase")}
    told = {p.get("name"): p.get("value") for p in cases["test_price[milk]"].iter("property")}
    assert (told["shared"], told["ethogram_attempts"], told["ethogram_passed"]) == ("24", "12", "12")
    assert (told["ethogram_verdict"], told["ethogram_run"]) == ("recorded", "main")
    assert sorted(cases) == ["test_plain", "test_price[milk]", "test_price[tea]", "test_stable"]


def test_a_worse_version_fails_test_by_test_and_as_a_whole(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makepyfile(test_shop=DRAWN)
    pytester.runpytest("--ethogram-run=main")
    monkeypatch.setenv("RATE", "0.1")
    result = pytester.runpytest("--junit-xml=j.xml", "--ethogram-run=new", "--ethogram-markdown=gate.md")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.assert_outcomes(passed=2, failed=3)
    result.stdout.fnmatch_lines(
        [
            "test_shop.py */12 */12 12/12 .*",
            "this test got worse by itself: *% of 12 attempts passed, 100% in the baseline (exact test, Holm over 3 *",
            "*the first that failed, attempt *",
            "E       AssertionError: too dear",
            "REGRESSION  main → new: *",
            "2 tasks got worse by themselves: *",
            "moved: test_shop.py::test_price*AssertionError: too dear*",
            "FAILED test_shop.py::test_price[[]tea] - this test got worse*",
            "FAILED ethogram::verdict - regression against main: *",
        ]
    )
    cases = {c.get("name"): c for c in ET.parse(pytester.path / "j.xml").iter("testcase")}
    assert {name for name, case in cases.items() if case.find("failure") is not None} == {
        "test_price[tea]",
        "test_price[milk]",
        "verdict",
    }
    told = {p.get("name"): p.get("value") for p in cases["test_price[tea]"].iter("property")}
    assert float(told["ethogram_p"] or 1) <= 0.005
    assert (told["ethogram_baseline_rate"], told["ethogram_verdict"]) == ("1.0", "regression")
    new = runs(pytester)[-1]
    assert new.find(str(told["ethogram_failing_trace"])).head.task == "test_shop.py::test_price[tea]"
    assert "Ethogram gate: regression" in (pytester.path / "gate.md").read_text()


def test_an_undecided_session_warns_and_fails_only_if_that_is_wished(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makepyfile(test_shop=DRAWN)
    monkeypatch.setenv("RATE", "0.9")
    pytester.runpytest("--ethogram-k=3")
    # in a process of its own: in this one, pytest warns of plug-ins that are imported already
    result = pytester.runpytest_subprocess("-W", "error", "--ethogram-k=3", "--ethogram-margin=0.3")
    assert result.ret == pytest.ExitCode.OK
    result.stdout.fnmatch_lines(
        [
            "*EthogramWarning: ethogram: undecided: *",
            "UNDECIDED  pytest-* → pytest-*",
            "no single test can fail by itself below 6 attempts on both sides",
            "to decide: candidate attempts at most *",
        ]
    )
    strict = pytester.runpytest("--ethogram-k=3", "--ethogram-strict", "--ethogram-margin=0.3")
    assert strict.ret == pytest.ExitCode.TESTS_FAILED
    strict.stdout.fnmatch_lines(["FAILED ethogram::verdict - ethogram: undecided: *"])


def test_a_pass_needs_every_test_of_the_baseline_as_it_was(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_shop=DRAWN)
    pytester.runpytest("--ethogram-margin=0.4")
    same = pytester.runpytest("--ethogram-margin=0.4", "--ethogram-strict")
    assert same.ret == pytest.ExitCode.OK
    same.stdout.fnmatch_lines(["PASS  pytest-* → pytest-*"])
    # another number of attempts, a comment and another layout are no other test; another demand is
    pytester.makepyfile(test_shop=DRAWN.replace("k=12", "k=13").replace('"How', '# it may be dear\n    "How'))
    assert pytester.runpytest("--ethogram-margin=0.4", "--ethogram-strict").ret == pytest.ExitCode.OK
    changed = DRAWN.replace('check("short", True)', 'check("brief", True)') + (
        "@pytest.mark.ethogram(k=2)\ndef test_new():\n    pass\n"
    )
    pytester.makepyfile(test_shop=changed)
    result = pytester.runpytest("--ethogram-margin=0.4", "-k", "not milk")
    result.stdout.fnmatch_lines(
        [
            "UNDECIDED *",
            "*2 tasks of the baseline have no attempt by the candidate (*milk*stable*), and a pass needs every task",
            "note: changed, so not compared: test_shop.py::test_stable",
            "note: not run: test_shop.py::test_price[[]milk]",
            "note: not in the baseline: test_shop.py::test_new",
        ]
    )
    renewed = pytester.runpytest("--ethogram-update", "--ethogram-k=4")
    renewed.stdout.fnmatch_lines(["RECORDED  *: 4 tests, 16 of 16 attempts passed"])
    later = pytester.runpytest("--ethogram-k=4", "--ethogram-margin=0.4")
    later.stdout.no_fnmatch_line("note: changed*")


ODD = """
import pytest

@pytest.mark.ethogram(n=3)
def test_keyword(): pass

@pytest.mark.ethogram(k=0)
def test_none(): pass

@pytest.mark.ethogram(expect="passes")
def test_hopeful(): pass

@pytest.mark.ethogram(max_usd="much")
def test_dollars(): pass

@pytest.mark.xfail
@pytest.mark.ethogram(k=2)
def test_expected(): pass

def test_unmarked(episode): pass

@pytest.fixture
def broken():
    raise KeyError("broken fixture")

@pytest.mark.ethogram(k=2)
def test_fixture(broken): pass

@pytest.fixture
def early(episode):
    return episode.rng

@pytest.mark.ethogram(k=2)
def test_early(early): pass

@pytest.mark.ethogram(k=2)
def test_skipped():
    pytest.skip("not today")

@pytest.mark.ethogram(k=2)
def test_crash():
    raise ValueError("boom")

@pytest.mark.ethogram(k=2)
def test_exit():
    raise SystemExit(3)

@pytest.mark.ethogram(k=2)
def test_ours():
    from ethogram.errors import BadUsage
    raise BadUsage("of the body")

@pytest.mark.ethogram(k=2)
def test_check(episode):
    assert episode.check("brief", False, "too long") is False

@pytest.mark.ethogram(k=2, expect="fails")
def test_soft(episode):
    episode.check("brief", False, "too long")

@pytest.mark.ethogram(k=2)
def test_end(request):
    request.addfinalizer(lambda: 1 / 0)
"""


def test_what_cannot_be_played_says_so_and_a_crash_is_a_failed_attempt(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_odd=ODD)
    result = pytester.runpytest()
    result.assert_outcomes(passed=2, failed=4, errors=9, skipped=1)
    result.stdout.fnmatch_lines(
        [
            "@pytest.mark.ethogram takes k, max_steps, max_tokens, max_usd, expect by name, and not 'n'",
            "k of @pytest.mark.ethogram must be a whole number above 0, not 0",
            "expect of @pytest.mark.ethogram must be 'fails', or be left out, not 'passes'",
            "max_usd of @pytest.mark.ethogram must be a number above 0, not 'much'",
            "a test has both the marks ethogram and xfail; attempts that fail are counted already, so remove xfail",
            "the fixture 'episode' is for tests with @pytest.mark.ethogram",
            "E*KeyError: 'broken fixture'",
            "E*RuntimeError: the attempt has not begun yet: use this in the body of the test, not in a fixture",
            "E*ZeroDivisionError: division by zero",
            "UNDECIDED  *: 2 of 12 attempts passed; this is not a baseline, for 4 of its tests passed in no attempt",
            "test_odd.py::test_soft: 0 of 2 attempts passed: brief: too long",
        ]
    )
    (run,) = runs(pytester)
    ended = {e.head.task.partition("::")[2]: e.head.outcome for e in run.entries}
    assert {name for name, o in ended.items() if isinstance(o, Scored) and o.value == 1.0} == {"test_end"}
    assert {name for name, o in ended.items() if isinstance(o, Missing)} == {"test_skipped"}
    crash = next(run.trace(e) for e in run.entries if e.head.task.endswith("test_crash"))
    assert {x.name: x.value for x in crash.labels} == {"test": 0.0, "stopped_by": "crash.ValueError"}


CANNOT_RUN = """
import pytest

@pytest.mark.ethogram(k=3)
async def test_async():
    pass

@pytest.mark.ethogram(k=3)
def test_module():
    import no_such_module

@pytest.mark.ethogram(k=3, expect="fails")
def test_declared_module():
    import no_such_module

@pytest.fixture
def broken():
    raise KeyError("broken fixture")

@pytest.mark.ethogram(k=3)
def test_fixture(request):
    request.getfixturevalue("broken")

@pytest.mark.ethogram(k=3)
def test_works():
    pass
"""


def test_what_cannot_run_fails_as_without_the_mark_and_is_no_baseline(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_cannot=CANNOT_RUN)
    result = pytester.runpytest("--ethogram-run=first")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.assert_outcomes(passed=1, failed=4)
    result.stdout.fnmatch_lines(
        [
            "async def functions are not natively supported.",
            "E*ModuleNotFoundError: No module named 'no_such_module'",
            "0 of 3 attempts passed: ModuleNotFoundError: No module named 'no_such_module'",
            'mend it, or say that it cannot pass yet: @pytest.mark.ethogram(expect="fails")',
            "E*ModuleNotFoundError: No module named 'no_such_module'",
            "0 of 3 attempts passed: KeyError: 'broken fixture'",
            "UNDECIDED  first: 3 of 9 attempts passed; this is not a baseline, for 2 of its tests passed in no attempt",
        ]
    )
    (run,) = runs(pytester)
    unscored = {e.head.task.partition("::")[2] for e in run.entries if isinstance(e.head.outcome, Missing)}
    assert unscored == {"test_async", "test_declared_module"}
    # nothing is held against that session: the next one is a first one again
    pytester.makepyfile(test_cannot="import pytest\n\n@pytest.mark.ethogram(k=3)\ndef test_works():\n    pass\n")
    pytester.runpytest().stdout.fnmatch_lines(["RECORDED *"])


def test_a_test_that_never_passed_fails_unless_it_is_declared(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makepyfile(test_shop=DRAWN)
    monkeypatch.setenv("RATE", "0")
    first = pytester.runpytest("--ethogram-k=2")
    first.assert_outcomes(passed=2, failed=2)
    declared = DRAWN.replace("(k=12)\n@pytest.mark.parametrize", '(k=12, expect="fails")\n@pytest.mark.parametrize')
    pytester.makepyfile(test_shop=declared)
    second = pytester.runpytest("--ethogram-k=2", "--ethogram-run=main")
    second.assert_outcomes(passed=4)
    second.stdout.fnmatch_lines(
        [
            "RECORDED  main *: 3 tests, 2 of 6 attempts passed",
            "test_shop.py::test_price[[]tea]: 0 of 2 attempts passed: AssertionError: too dear*",
        ]
    )
    # the declaration is no part of what the test does; where it passed before, two failed attempts prove nothing alone
    pytester.makepyfile(test_shop=DRAWN)
    monkeypatch.setenv("RATE", "1")
    pytester.runpytest("--ethogram-k=2", "--ethogram-update")
    monkeypatch.setenv("RATE", "0")
    by_chance = pytester.runpytest("--ethogram-k=2", "--ethogram-margin=0.9")
    by_chance.stdout.no_fnmatch_line("FAILED test_shop*")
    by_chance.stdout.fnmatch_lines(
        ["test_shop.py::test_price[[]milk]: 0 of 2 attempts passed: AssertionError: too dear*"]
    )


def test_options_that_make_no_sense_are_refused_with_one_sentence(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_shop=DRAWN)
    for options, sentence in (
        (["--ethogram-live", "--ethogram-replay"], "*--ethogram-replay answers from the baseline and *; give one"),
        (["--ethogram-k=0"], "*--ethogram-k must be more than 0, not 0"),
        (["-o", "ethogram_margin=wide"], "*the margin of ethogram must be a number above 0, not 'wide'"),
    ):
        result = pytester.runpytest(*options)
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        result.stderr.fnmatch_lines([sentence])
    pytester.runpytest("--ethogram-run=main", "--ethogram-k=1")
    taken = pytester.runpytest("--ethogram-run=main", "--ethogram-k=1")
    taken.assert_outcomes(passed=1, errors=3)
    taken.stdout.fnmatch_lines(["a run named 'main' exists already in *; choose another name"])


def test_a_session_that_is_stopped_is_not_judged(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_shop=DRAWN)
    pytester.runpytest("--ethogram-k=2")
    stopped = DRAWN.replace('    episode.check("short", True)', "    raise KeyboardInterrupt")
    pytester.makepyfile(test_shop=stopped)
    result = pytester.runpytest_subprocess("--ethogram-k=2")
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.stdout.fnmatch_lines(["UNDECIDED *: 4 of 4 attempts passed; the session was stopped before its end"])
    assert len(runs(pytester)[-1].entries) == 4


def test_workers_write_one_run_and_the_controller_judges_it(pytester: pytest.Pytester) -> None:
    many = DRAWN.replace('["tea", "milk"]', '["tea", "milk", "lamp", "pear"]')
    pytester.makepyfile(test_shop=many)
    command = [sys.executable, "-m", "pytest", "-n", "2"]
    first = subprocess.run(
        [*command, "--ethogram-k=4", "--ethogram-run=main"], capture_output=True, text=True, cwd=pytester.path
    )
    assert "RECORDED  main is the baseline 'pytest' now: 5 tests, 20 of 20 attempts passed" in first.stdout
    assert first.returncode == 0
    second = subprocess.run(
        [*command, "--ethogram-k=4", "--junit-xml=j.xml", "--ethogram-run=new", "--ethogram-margin=0.4"],
        capture_output=True,
        text=True,
        cwd=pytester.path,
        env={**os.environ, "RATE": "0"},
    )
    assert second.returncode == 1, second.stdout
    assert "REGRESSION  main → new: 4 of 20 attempts passed" in second.stdout
    main, new = runs(pytester)
    for run in (main, new):
        assert sorted((e.head.task, e.head.attempt) for e in run.entries) == sorted(
            (e.head.task, e.head.attempt) for e in main.entries
        )
        assert len(run.entries) == 20
    cases = [c.get("name") for c in ET.parse(pytester.path / "j.xml").iter("testcase")]
    assert sorted(cases) == sorted({*cases})
    assert len(cases) == 7


def test_sessions_without_a_mark_load_nothing_heavy(tmp_path: Path) -> None:
    (tmp_path / "test_plain.py").write_text("def test_plain():\n    pass\n")
    program = (
        "import sys, pytest; code = pytest.main(['-q', '-p', 'no:langsmith_plugin']); "
        "print([m for m in sys.modules if m.startswith('ethogram.')]); sys.exit(code)"
    )
    for ci in ({}, {"CI": "true"}):
        done = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path, env={**os.environ, **ci}
        )
        assert done.returncode == 0, done.stdout
        loaded = done.stdout.splitlines()[-1]
        assert set(eval(loaded)) == {
            "ethogram.lazy",
            "ethogram.testing",
            "ethogram.testing.plugin",
            "ethogram.testing.reports",
            "ethogram.testing.settings",
        }


REFUSED = """
import os
import pytest
from ethogram.harness.faults import ProviderFault
from ethogram.wire.gateway.refusals import ProviderRefusal

KEY = ProviderRefusal(reason="infrastructure.provider.key", provider="openai", status=401, said="Incorrect API key")

@pytest.mark.ethogram(k=6)
def test_price(episode):
    if os.environ.get("REFUSED") and episode.attempt >= int(os.environ["REFUSED"]):
        raise ProviderFault(KEY)
"""


def test_what_a_provider_refused_is_named_and_never_a_baseline(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makepyfile(REFUSED)
    monkeypatch.setenv("REFUSED", "3")
    first = pytester.runpytest("--ethogram-run=first")
    words = "*the provider refused the key in 3 of 6 attempts, so this is not a baseline*"
    first.stdout.fnmatch_lines([words])
    assert first.ret == pytest.ExitCode.INTERRUPTED
    monkeypatch.delenv("REFUSED")
    pytester.runpytest("--ethogram-run=whole").stdout.fnmatch_lines(["RECORDED  whole is the baseline*"])
    monkeypatch.setenv("REFUSED", "0")
    updated = pytester.runpytest("--ethogram-run=updated", "--ethogram-update")
    assert updated.ret == pytest.ExitCode.INTERRUPTED
    judged = pytester.runpytest("--ethogram-run=judged")
    judged.stdout.fnmatch_lines(["UNDECIDED  whole → judged: *", "the provider refused the key in 6 of 6 attempts*"])
    assert judged.ret == pytest.ExitCode.INTERRUPTED
