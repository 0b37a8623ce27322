"""Randomness of an episode: by seed and purpose, and another one from a step on."""

from __future__ import annotations

import random

from ethogram.capture.builder import TraceBuilder
from ethogram.capture.intake import Intake, SourceReport
from ethogram.harness.handle import EpisodeHandle
from ethogram.plans import Task, derived_seed
from ethogram.prices import Budget, Caps
from ethogram.store import Home
from ethogram.store.redact import policy_from
from ethogram.traces import EpisodeId, Origin, TraceId
from ethogram.wire.recorder import Recorder


def test_another_seed_holds_for_all_that_draws_already(home: Home) -> None:
    with home.create("r", "run").writer(home.redactor(policy_from("default"))) as writer:
        intake = Intake(lambda t: writer.trace(t, None), Origin("run"), SourceReport(source="live"))
        builder = TraceBuilder(intake, TraceId("t"), EpisodeId("e"))
        episode = EpisodeHandle(Task(id="t"), 5, Recorder(builder), Budget("episode", Caps()))
        till, agent = episode.random("till"), episode.rng
        before = till.random(), agent.random()
        assert before == (
            random.Random(derived_seed(5, "till")).random(),
            random.Random(derived_seed(5, "agent")).random(),
        )
        episode.reseed(9)
        assert episode.seed == 9
        assert till.random() == random.Random(derived_seed(9, "till")).random()
        assert agent.random() == random.Random(derived_seed(9, "agent")).random()
        assert episode.random("late").random() == random.Random(derived_seed(9, "late")).random()
        builder.abort()
