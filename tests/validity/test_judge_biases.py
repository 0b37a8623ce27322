"""Biases that are planted in a simulated model judge are found by the matching measurement, through the prompts and
guards that a user's judge gets; an honest judge of the same noise is accused in at most one of twenty measurements, and
a measurement that forgets the other reading, the other order or the reference accuses it far more often.

The simulated model reads the prompt that the model judge sends, and nothing else: a step is bad where the word DEFECT
stands in it. What it draws depends on the whole prompt, so two readings of one trace differ also where it is honest.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from hashlib import blake2b
from typing import NamedTuple

import msgspec
import numpy as np
import pytest

from ethogram.capture.builder import TraceBuilder
from ethogram.capture.draft import Draft
from ethogram.capture.intake import Intake, SourceReport
from ethogram.capture.memory import MemorySink
from ethogram.findings.rubric import ItemVerdict, Rubric, RubricItem, TraceVerdict
from ethogram.questions.judging.bias import (
    BiasReport,
    Pairwise,
    TwoReadings,
    exposure_bias,
    middle_bias,
    order_bias,
    self_consistency,
    style_bias,
)
from ethogram.questions.judging.guards import JudgeGuard, guarded
from ethogram.questions.judging.judges import Case
from ethogram.questions.judging.modeljudge import JudgeReply, JudgeRequest, ModelJudge, ModelSettings
from ethogram.traces import SUCCESS_AT, Message, Origin, Scored, Text, ToolCall, Trace, episode_id, trace_id

RUBRIC = Rubric(name="simulated", items=(RubricItem(name="sound", question="Is it sound?", applies_to="calls"),))
_BLOCK = re.compile(r"\[step (\d+)\] .*?(?=\n\n\[step |\n\nQUESTIONS|\Z)", re.DOTALL)
_ASKED = re.compile(r"^(\w+): .*\n  asked about step ([\d, ]+)$", re.MULTILINE)


class Planted(NamedTuple):
    """How often the model errs, and how strongly each bias moves it; `span` is how far it reads from both ends."""

    noise: float = 0.15
    leak: float = 0.0
    narrated: float = 0.0
    first: float = 0.0
    length: float = 0.0
    span: int | None = None


class SimulatedModel:
    """Answers the requests of a model judge."""

    def __init__(self, planted: Planted, seed: int) -> None:
        self.planted, self.seed = planted, seed

    def __call__(self, request: JudgeRequest) -> JudgeReply:
        text = request.messages[-1].text
        draw = _Draws(f"{self.seed} {request.digest}")
        if "better" in request.schema["properties"]:
            return JudgeReply(text=msgspec.json.encode({"why": "", "better": self._better(text, draw)}).decode())
        blocks = {int(m[1]): m for m in _BLOCK.finditer(text)}
        verdicts = [
            self._verdict(text, blocks, item, int(step), draw)
            for item, steps in _ASKED.findall(text)
            for step in steps.split(",")
        ]
        return JudgeReply(text=msgspec.json.encode({"verdicts": verdicts}).decode())

    def _verdict(
        self, text: str, blocks: dict[int, re.Match[str]], item: str, step: int, draw: _Draws
    ) -> dict[str, object]:
        planted, block = self.planted, blocks[step]
        yes = ("DEFECT" not in block[0]) != (draw() < planted.noise)
        written = len(blocks[step - 1][0]) if step - 1 in blocks else 0
        if planted.length and draw() < planted.length * min(1.0, written / 400):
            yes = True
        if "OUTCOME" in text and draw() < planted.leak:
            yes = "success" in text
        if "successfully" in text and draw() < planted.narrated:
            yes = True
        far = planted.span is not None and block.start() > planted.span and len(text) - block.end() > planted.span
        return {"item": item, "step": step, "why": "", "quote": "", "answer": "yes" if yes or far else "no"}

    def _better(self, text: str, draw: _Draws) -> str:
        first, second = text.split("SECOND RUN")
        if draw() < self.planted.first:
            return "first"
        gap = second.count("DEFECT") - first.count("DEFECT") + 4 * (draw() - 0.5) * (self.planted.noise > 0)
        return "tie" if gap == 0 else "first" if gap > 0 else "second"


class _Draws:
    """Uniform numbers from a text."""

    def __init__(self, name: str) -> None:
        self._rng = np.random.default_rng(int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "little"))

    def __call__(self) -> float:
        return float(self._rng.random())


def model_judge(planted: Planted, seed: int) -> ModelJudge:
    return ModelJudge(ModelSettings(model="simulated"), SimulatedModel(planted, seed))


def simulated_traces(
    count: int, rng: np.random.Generator, *, calls: int = 6, attempts: int = 2
) -> list[tuple[str, Trace]]:
    """Traces of tasks with several attempts: one call in three is bad, half of them claim success at the end."""
    found = []
    for number in range(count):
        task = f"t{number // attempts}"
        bad = rng.random(calls) < 1 / 3
        done: list[Trace] = []
        intake = Intake(lambda _, done=done: MemorySink(done), Origin("run"), SourceReport(source="test"))
        builder = TraceBuilder(intake, trace_id("sim", str(rng.integers(2**60))), episode_id(task, str(number)))
        builder.task = task
        for i in range(calls):
            words = "so " * int(rng.integers(1, 150))
            said = Message("assistant", (Text(words), ToolCall("look", f'{{"page": {i}}}')))
            builder.add(Draft(kind="model", name="chat", output=(said,), growing=True))
            result = f"page {i} {'DEFECT' if bad[i] else 'fine'} {rng.integers(10**9)}"
            builder.add(
                Draft(kind="tool", name="look", tool="look", arguments=f'{{"page": {i}}}', result=result, status="ok")
            )
        end = "I have successfully finished the task." if rng.random() < 0.5 else "Here is what I have."
        builder.add(Draft(kind="model", name="chat", output=(Message("assistant", (Text(end),)),), growing=True))
        builder.outcome = Scored(float(rng.random() < 0.5), "test")
        builder.close()
        found.append((task, done[0]))
    return found


LONG = bool(os.environ.get("ETHOGRAM_LONG"))
HONEST = 400 if LONG else 50
BIASED = 60 if LONG else 10
HIDDEN: tuple[JudgeGuard, ...] = ("outcome", "narration")


def outcome(planted: Planted, seed: int) -> BiasReport:
    judge, readings = model_judge(planted, seed), []
    for task, trace in simulated_traces(20, np.random.default_rng(seed)):
        assert isinstance(trace.outcome, Scored)
        exposed = judge.judge(Case(guarded(trace, ("narration",)).trace, SUCCESS_AT), RUBRIC)
        hidden = judge.judge(Case(guarded(trace, HIDDEN).trace, SUCCESS_AT), RUBRIC)
        readings.append(TwoReadings(task, trace, exposed, hidden, 1.0 if trace.outcome.success(SUCCESS_AT) else -1.0))
    return exposure_bias("outcome", readings)


def narration(planted: Planted, seed: int) -> BiasReport:
    judge, readings = model_judge(planted, seed), []
    for task, trace in simulated_traces(48, np.random.default_rng(seed)):
        hidden = guarded(trace, HIDDEN)
        if hidden.removed["narration"]:
            exposed = judge.judge(Case(guarded(trace, ("outcome",)).trace, SUCCESS_AT), RUBRIC)
            readings.append(TwoReadings(task, trace, exposed, judge.judge(Case(hidden.trace, SUCCESS_AT), RUBRIC)))
    return exposure_bias("narration", readings)


def middle(planted: Planted, seed: int) -> BiasReport:
    judge, readings = model_judge(planted, seed), []
    for task, trace in simulated_traces(10, np.random.default_rng(seed), calls=16):
        case = Case(guarded(trace, HIDDEN).trace, SUCCESS_AT)
        whole, parts = (judge.reading_in(size).judge(case, RUBRIC) for size in (10**9, 2500))
        readings.append(TwoReadings(task, trace, whole, parts))
    return middle_bias(readings)


def order(planted: Planted, seed: int) -> BiasReport:
    judge, pairs = model_judge(planted, seed), []
    traces = simulated_traces(30, np.random.default_rng(seed))
    for (task, one), (_, two) in zip(traces[::2], traces[1::2], strict=True):
        a, b = (Case(guarded(t, HIDDEN).trace, SUCCESS_AT) for t in (one, two))
        pairs.append(Pairwise(task, judge.prefer(a, b, RUBRIC), judge.prefer(b, a, RUBRIC)))
    return order_bias(pairs)


def truth(trace: Trace) -> TraceVerdict:
    """What stands in the trace: a call is bad where its result says so."""
    calls = [(i, s) for i, s in enumerate(trace.steps) if s.kind == "tool" and s.result is not None]
    return TraceVerdict(
        verdicts=tuple(
            ItemVerdict(item="sound", step=i, value="DEFECT" not in trace.text(s.result)) for i, s in calls if s.result
        )
    )


def length(planted: Planted, seed: int) -> BiasReport:
    judge = model_judge(planted, seed)
    traces = simulated_traces(40, np.random.default_rng(seed), attempts=1)
    judged = [
        (task, t, judge.judge(Case(guarded(t, HIDDEN).trace, SUCCESS_AT), RUBRIC), truth(t)) for task, t in traces
    ]
    return style_bias(judged, seed=seed)


Measure = Callable[[Planted, int], BiasReport]
MEASURES: dict[str, tuple[Measure, Planted]] = {
    "outcome": (outcome, Planted(leak=0.5)),
    "narration": (narration, Planted(narrated=0.6)),
    "windows": (middle, Planted(span=1500)),
    "order": (order, Planted(first=0.6)),
    "length": (length, Planted(length=0.9)),
}


@pytest.mark.parametrize("name", MEASURES)
def test_a_planted_bias_is_found(name: str) -> None:
    measure, planted = MEASURES[name]
    found = [measure(planted, 1000 + seed) for seed in range(BIASED)]
    assert {r.bias for r in found} == {name}
    assert sum(r.found == "bias" for r in found) >= 0.8 * BIASED
    assert np.mean([r.effect.value for r in found]) > 0


@pytest.mark.parametrize("name", MEASURES)
def test_an_honest_judge_is_rarely_accused(name: str) -> None:
    measure, _ = MEASURES[name]
    found = [measure(Planted(), seed) for seed in range(HONEST)]
    accused = sum(r.found == "bias" for r in found)
    # binomial: with a rate of 5 % more than this happens in one of a thousand such tests
    assert accused <= 0.05 * HONEST + 3.1 * (0.05 * 0.95 * HONEST) ** 0.5
    assert all(r.found in ("bias", "none") for r in found)


def test_one_order_alone_would_accuse_an_honest_judge() -> None:
    """Comparing in one order only takes a better run for a preferred position."""
    judge, wrong = model_judge(Planted(noise=0.0), 0), 0
    for seed in range(20):
        traces = simulated_traces(24, np.random.default_rng(seed))
        traces.sort(key=lambda x: sum(not v.value for v in truth(x[1]).verdicts))
        better, worse = traces[:12], traces[12:]
        pairs = []
        for (task, one), (_, two) in zip(better, worse, strict=True):
            said = judge.prefer(Case(one, SUCCESS_AT), Case(two, SUCCESS_AT), RUBRIC)
            pairs.append(Pairwise(task, said, said))
        wrong += order_bias(pairs).found == "bias"
    assert wrong >= 18


def test_length_without_a_reference_would_accuse_an_honest_judge() -> None:
    """Steps with much text that are bad more often get fewer yes, from an honest judge too."""
    wrong = right = 0
    for seed in range(12):
        judge = model_judge(Planted(noise=0.05), seed)
        judged, blind = [], []
        for task, trace in simulated_traces(60, np.random.default_rng(seed), attempts=1):
            known = truth(trace)
            long = sum(len(trace.message(s.output[0]).text) for s in trace.steps if s.kind == "model") / len(
                trace.steps
            )
            bad = np.mean([not v.value for v in known.verdicts])
            if (long > 110) != (bad > 1 / 3):
                continue  # what is left has long texts where it has many defects
            verdict = judge.judge(Case(trace, SUCCESS_AT), RUBRIC)
            judged.append((task, trace, verdict, known))
            nothing = tuple(ItemVerdict(item=v.item, step=v.step, value=True) for v in known.verdicts)
            blind.append((task, trace, verdict, TraceVerdict(verdicts=nothing)))
        right += style_bias(judged, seed=seed).found == "bias"
        wrong += style_bias(blind, seed=seed).found == "bias"
    assert right <= 3
    assert wrong >= 9


def test_a_judge_that_agrees_with_itself_half_of_the_time_is_unstable() -> None:
    traces = simulated_traces(20, np.random.default_rng(7))
    for noise, found in ((0.5, "unstable"), (0.0, "none")):
        judge = model_judge(Planted(noise=noise), 3)
        readings = [[judge.judge(Case(t, SUCCESS_AT, None, r), RUBRIC) for r in range(3)] for _, t in traces]
        assert self_consistency(readings, [task for task, _ in traces]).found == found
