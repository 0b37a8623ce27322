"""A memorisation probe: a model gets the beginning of every task, and its reply is compared with the rest."""

from __future__ import annotations

from typing import Any

import msgspec

from ethogram.errors import BadUsage
from ethogram.harness.options import AllCaps, RunOptions
from ethogram.harness.planning import AgentSpec, fresh_name
from ethogram.harness.suites import start_run
from ethogram.plans import Task
from ethogram.prices import Caps, Metering
from ethogram.store import Home, home_of
from ethogram.suites.frozen import known_golden
from ethogram.traces import Message, Text
from ethogram.wire.gateway.call import ModelRequest, ProtocolName
from ethogram.wire.gateway.sent_again import ModelClient, Unanswered

from .memorised import CANARY_TASK, MemoryProbe, knows_canary, probe_row, probe_suite, remembered_share
from .overlap import split_texts
from .question import GoldenCheck, decided

MOST_REPLY = 512
MOST_TASKS = 50


class ProbeOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What a probe may use: never more tasks or dollars than these."""

    most: int = MOST_TASKS
    max_usd: float | None = None
    workers: int = 4
    metering: Metering = Metering()
    capture: str = "auto"


_DEFAULTS = ProbeOptions()


class AskProbed:
    """An agent that asks one model for one reply: `OPENAI_BASE_URL`, `ANTHROPIC_BASE_URL` and the keys say where."""

    def __init__(self, model: str) -> None:
        """`model` is the provider's name of it; names that begin with `claude` are asked as Anthropic's are."""
        self.model = model
        self.__name__ = f"model:{model}"

    async def __call__(self, task: Task, episode: Any) -> str:
        """The reply to the prompt of a task."""
        protocol: ProtocolName = "anthropic-messages" if self.model.startswith("claude") else "openai-chat"
        request = ModelRequest(
            protocol=protocol,
            model=self.model,
            messages=(Message("user", (Text(task.prompt),)),),
            tools=(),
            params={"max_tokens": MOST_REPLY, "temperature": 0},
        )
        async with ModelClient(episode.environment) as client:
            try:
                reply = await client.ask(request)
            except Unanswered as error:
                raise ConnectionError(str(error)) from None
        return reply.message.text


def probe_memory(
    checked: GoldenCheck,
    suite: str,
    agent: AgentSpec,
    options: ProbeOptions = _DEFAULTS,
    *,
    home: Home | str | None = None,
) -> GoldenCheck:
    """A check of a golden set with a probe of an agent's or a model's memory added to it, and its new verdict.

    Every text is asked once, in a run of its own that is stored, priced and capped. Raises `BadUsage` where no task is
    long enough to be probed.
    """
    lake = home_of(home)
    loaded = known_golden(suite)
    golden = loaded.golden
    assert golden is not None
    texts = {task.id: task.prompt for task in loaded.suite.tasks}
    beginnings = split_texts(texts)
    chosen = dict(list(beginnings.items())[: options.most])
    if not chosen:
        raise BadUsage("no task has a text that is long enough to be continued: about 20 words of its own are needed")
    asked = probe_suite(golden, chosen)
    name = fresh_name(lake, f"probe-{golden.suite}")
    result = start_run(
        asked,
        agent,
        RunOptions(
            name=name,
            workers=options.workers,
            tags=("probe",),
            caps=AllCaps(experiment=Caps(usd=options.max_usd)),
            metering=options.metering,
            capture=options.capture,
        ),
        home=lake,
    )
    run = lake.resolve(result.run)
    replies = {e.head.task: run.trace(e).answer for e in run.entries}
    rows = [probe_row(task, cut, replies.get(task)) for task, cut in chosen.items()]
    checked.probe = MemoryProbe(
        agent=agent if isinstance(agent, str) else str(getattr(agent, "__name__", "agent")),
        run=result.run,
        share=remembered_share(rows),
        canary=knows_canary(golden, replies.get(CANARY_TASK)),
        rows=rows,
        too_short=[task for task in texts if task not in beginnings],
        cost_usd=result.cost_usd,
        at_least_usd=result.at_least_usd,
        stopped=result.stopped,
    )
    return decided(checked)
