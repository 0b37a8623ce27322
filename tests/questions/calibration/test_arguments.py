"""Values that make no sense, given in Python: one sentence with the parameter's own name, and the facts as fields."""

from __future__ import annotations

import pickle

import pytest

import ethogram as eth
from ethogram.arguments import MOST, at_least, between, check_level, choice_of
from ethogram.errors import BadUsage, NotFound, Refused, parameter_names
from ethogram.estimate import json_number
from ethogram.questions.calibration.question import calibrate
from ethogram.questions.calibration.variance import variance
from ethogram.questions.calibration.variance_ledger import UnitPrices
from ethogram.questions.explore.buying.race import race
from ethogram.reading.traces import find_trace
from ethogram.worlds.named import known_world

NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("ask", "option", "value"),
    [
        (lambda: eth.stats("r", missing="failures"), "missing", "failures"),
        (lambda: eth.stats("r", target="populations"), "target", "populations"),
        (lambda: eth.stats("r", level=95), "level", 95),
        (lambda: eth.stats("r", level=NAN), "level", None),
        (lambda: eth.compare("a", "b", design="withn"), "design", "withn"),
        (lambda: eth.compare("a", "b", level=95), "level", 95),
        (lambda: eth.why("a", level=95), "level", 95),
        (lambda: calibrate("a", level=95), "level", 95),
        (lambda: variance(["a"], level=95), "level", 95),
        (lambda: variance(["a"], prices=UnitPrices(run=-3)), "run_usd", -3),
        (lambda: variance(["a"], prices=UnitPrices(label=NAN)), "label_usd", None),
        (lambda: eth.Suite(name="s", tasks=(), on_crash="zro"), "on_crash", "zro"),
        (lambda: eth.Suite(name="s", tasks=(), on_cap="zro"), "on_cap", "zro"),
        (lambda: eth.span("x", kind="modle").__enter__(), "kind", "modle"),
        (lambda: eth.plan(seed=-3), "seed", -3),
        (lambda: eth.plan(stored=INF), "stored", INF),
        (lambda: eth.plan(stored=1e20), "stored", 1e20),
        (lambda: eth.plan(usd_per_run=NAN), "usd_per_run", None),
        (lambda: eth.divergence("a", seed=-1), "seed", -1),
        (lambda: eth.field("a", rule="visted"), "rule", "visted"),
        (lambda: eth.gate("a", "b", margin="0.1"), "margin", "0.1"),
        (lambda: eth.field("a", level="high"), "level", "high"),
        (lambda: eth.load(5), "run", 5),
        (lambda: eth.gate(3, "b"), "run", 3),
        (lambda: eth.runs(home=5), "home", 5),
        (lambda: eth.import_logs(4), "paths", 4),
        (lambda: eth.import_logs([4, "a.json"]), "paths", 4),
        (lambda: eth.sql(3), "query", 3),
        (lambda: eth.run(3, "x"), "suite", 3),
        (lambda: eth.report("a", out=3), "out", 3),
        (lambda: race(known_world("toy_v1", synthetic=True), tau=NAN), "tau", None),
    ],
)
def test_a_bad_value_is_named_with_its_parameter(tmp_path, ask, option, value):
    with pytest.raises(BadUsage) as caught:
        ask()
    error = caught.value
    assert error.option == option
    assert str(error).startswith(f"{option} must ")
    assert error.cli_message.startswith(f"--{option.replace('_', '-')} must ")
    if value is not None:
        assert error.value == value


def test_a_closed_set_names_its_choices():
    with pytest.raises(BadUsage, match="missing must be bounds or failure, not 'failures'") as caught:
        choice_of("missing", "failures", ("bounds", "failure"))
    assert caught.value.choices == ("bounds", "failure")


@pytest.mark.parametrize("sd", [NAN, INF, -1.0])
def test_the_spread_between_sessions_is_a_number(sd):
    from ethogram.questions.gate.plan import GateSettings

    with pytest.raises(BadUsage, match="session_sd must be"):
        GateSettings(session_sd=sd).checked()


def test_numbers():
    assert (check_level(0.95), at_least("k", 1, 1), between("alpha", 0.1, 0.0, 0.5)) == (0.95, 1, 0.1)
    for wrong in (True, "3", MOST + 1):
        with pytest.raises(BadUsage):
            at_least("k", wrong)
    with pytest.raises(ValueError, match="NaN"):
        json_number(NAN)
    assert json_number(-INF) == "-inf"


@pytest.mark.parametrize(
    ("written", "python"),
    [
        ("--min-coverage must lie between 0 and 1", "min_coverage must lie between 0 and 1"),
        ("give --why REASON, or -k", "give why=REASON, or k"),
        ("begin with: ethogram golden freeze s --why REASON", "begin with: ethogram golden freeze s --why REASON"),
        ("there is no agent 'a.py --fast'; give --agent", "there is no agent 'a.py --fast'; give agent"),
        ("--tau must lie between 0 and 1, not -inf or -3", "tau must lie between 0 and 1, not -inf or -3"),
        ("model/hf--small and a--b stay", "model/hf--small and a--b stay"),
    ],
)
def test_options_are_spelled_as_the_caller_gives_them(written, python):
    assert parameter_names(written) == python
    for error in (BadUsage(written), Refused(written)):
        assert (str(error), error.cli_message) == (python, written)
        again = pickle.loads(pickle.dumps(error))
        assert (str(again), again.cli_message) == (python, written)


def test_what_is_not_there_is_told_in_facts(tmp_path):
    with pytest.raises(NotFound) as caught:
        find_trace("b2:dead", home=str(tmp_path))
    assert (caught.value.what, caught.value.name, caught.value.where) == ("trace", "b2:dead", str(tmp_path))
    with pytest.raises(NotFound) as caught:
        eth.stats("nope", home=str(tmp_path))
    assert (caught.value.what, caught.value.name, caught.value.where) == ("run", "nope", str(tmp_path))


def test_a_name_that_is_not_there_has_its_place_as_a_field():
    error = NotFound.named("run", "nigth", ["night"], where="/tmp/home")
    assert str(error) == "no run named 'nigth' in /tmp/home; did you mean 'night'?"
    assert (error.what, error.name, error.where, error.known) == ("run", "nigth", "/tmp/home", ("night",))
