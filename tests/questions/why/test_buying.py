"""Causes tried by experiment on the desk: what is bought, what is kept, what is printed and what is refused."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from ethogram.errors import BadUsage
from ethogram.harness.options import RunOptions
from ethogram.harness.suites import start_run
from ethogram.prices import Metering
from ethogram.prices.settings import price_list
from ethogram.questions.fork.buying.fork import ForkOptions, fork_trace
from ethogram.questions.logs.imports import import_logs
from ethogram.questions.why.buying import SettleOptions, settle_causes
from ethogram.questions.why.question import why
from ethogram.store import Home
from ethogram.worlds import desk
from ethogram.worlds.practice import provided

PRICED = Metering(prices=price_list(None, ("*=2/8",)).own)
FEW = SettleOptions(causes=1, k=1, every=8, metering=PRICED)


@pytest.fixture
def night(home: Home) -> Iterator[Home]:
    """Attempts of the clerk at two tasks, and its model."""
    options = RunOptions(k=24, tasks=("refund-ada", "refund-ben"), name="night", metering=PRICED)
    with provided(desk.model):
        start_run("ethogram.worlds.desk", "ethogram.worlds.desk:clerk", options, home=home)
        yield home


def test_a_cause_names_its_runs_and_an_experiment_that_works_as_printed(night: Home) -> None:
    found = why("night", home=night)
    first = found.causes[0]
    assert len(first.rests_on) == first.failed_with
    assert set(first.rests_on) <= {t.trace for t in found.traces}
    experiment = first.experiment
    assert experiment is not None
    assert (experiment.kind, experiment.runs, experiment.why) == ("fork", 40, None)
    spent = sum(e.totals.cost_usd or 0.0 for e in night.run("night").entries)
    assert experiment.usd == pytest.approx(40 * spent / 48)
    program, verb, trace, *rest = shlex.split(experiment.command or "")
    assert (program, verb, rest[0], rest[2], rest[4:7]) == ("ethogram", "fork", "--at", "--set", ["-k", "20", "--home"])
    done = fork_trace(trace, int(rest[1]), rest[3], ForkOptions(k=2, every=2), home=night)
    assert (done.pairs, done.missing) == (2, {})


def test_causes_are_tried_kept_and_not_bought_again(night: Home) -> None:
    found = settle_causes("night", FEW, home=night)
    first, *rest = found.causes
    settled = first.settled
    assert settled is not None
    assert all(c.settled is None for c in rest), "only one was to be tried"
    assert settled.status in ("confirmed", "not_settled")
    assert settled.run is not None
    assert night.run(settled.run).info.kind == "fork"
    assert settled.runs == len(night.run(settled.run).entries) == 2 * settled.attempts
    assert settled.usd is not None
    assert settled.usd > 0
    value, before, after = settled.effect.value, settled.from_.value, settled.to.value
    assert value is not None
    assert before is not None
    assert after is not None
    assert value == pytest.approx(after - before)
    assert settled.command.startswith("ethogram why night --settle -k 1 --home ")
    again = settle_causes("night", FEW, home=night)
    assert again.causes[0].settled == settled, "the same command buys nothing twice"
    told = msgspec.json.decode(found.to_json())["causes"][0]["settled"]
    assert {"status", "effect", "from", "to", "runs", "usd", "command"} <= told.keys()


def test_money_is_a_hard_limit_and_what_is_left_open_has_a_price(night: Home) -> None:
    capped = msgspec.structs.replace(FEW, max_usd=0.004, workers=1)
    settled = settle_causes("night", capped, home=night).causes[0].settled
    assert settled is not None
    assert (settled.status, settled.runs > 0) == ("not_settled", True)
    assert "cap.experiment" in settled.why
    assert (settled.usd or 0.0) < 0.01
    assert settled.needed is None or (settled.needed_usd or 0.0) > 0


def test_too_few_attempts_buy_nothing(night: Home) -> None:
    strict = msgspec.structs.replace(FEW, level=1 - 1e-13)
    settled = settle_causes("night", strict, home=night).causes[0].settled
    assert settled is not None
    assert (settled.status, settled.runs, settled.run) == ("not_settled", 0, None)
    assert "cannot settle it" in settled.why
    assert (settled.needed or 0) > 40
    assert night.names() == ["night"]


def test_what_makes_no_sense_is_refused(night: Home, tmp_path: Path) -> None:
    for options, said in (
        (SettleOptions(smallest=0.0), "smallest is an effect between 0 and 1"),
        (SettleOptions(causes=0), "at least one cause"),
        (SettleOptions(k=0), "at least one cause"),
    ):
        with pytest.raises(BadUsage, match=said):
            settle_causes("night", options, home=night)
    log = tmp_path / "chat.jsonl"
    log.write_text(json.dumps({"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "a"}]}))
    import_logs(log, home=night, run="chats")
    with pytest.raises(BadUsage, match="names no suite and agent that could be run again; give suite"):
        settle_causes("chats", home=night)
