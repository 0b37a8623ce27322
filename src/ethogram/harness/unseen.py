"""What a run says of model calls that nobody counted: where they went, and what its caps make of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ethogram.store import Entry, Run
from ethogram.traces import OUTSIDE, SILENT

from .agents import Agent
from .options import RunOptions
from .outside_agents import CommandAgent, HttpAgent
from .spent import unmetered


def unseen_calls(run: Run, entries: Sequence[Entry], agent: Agent, options: RunOptions) -> tuple[str, ...]:
    """One sentence for each host that was called outside the gateway, and one about attempts that are silent."""
    hosts: Counter[str] = Counter()
    silent = 0
    for entry in entries:
        meta = entry.head.meta
        hosts.update(filter(None, str(meta.get(OUTSIDE) or "").split(", ")))
        silent += SILENT in unmetered(entry.totals, meta, run)
    told = [
        f"{host} was called outside the gateway in {count} of {len(entries)} attempts, so their cost is not known; to "
        "bring it in, set the variable that its client reads before the run, such as "
        f"OPENAI_BASE_URL=https://{host}/v1, and give the client no address of its own"
        for host, count in sorted(hosts.items())
    ]
    capped = options.caps.limited() & {"usd", "tokens"}
    if silent and capped:
        told.append(f"no model call was seen in {silent} of {len(entries)} attempts: {_counted(agent, options)}")
    return tuple(told)


def _counted(agent: Agent, options: RunOptions) -> str:
    if not isinstance(agent, CommandAgent | HttpAgent) or options.isolation == "bwrap":
        return "its connections are seen, so caps count them as nothing"
    if options.caps.episode.named().keys() & {"usd", "tokens"}:
        return "caps count each as the dearest attempt until then, or as the episode's own cap"
    return (
        "caps count each as the dearest attempt until then, and do not cover those before the first that called one; "
        "--cap episode.usd=… covers all, and --isolation bwrap closes the network but for the gateway"
    )
