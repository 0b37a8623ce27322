"""A gateway of its own, for anything that calls models: `ethogram gateway`, alone or around a command."""

from __future__ import annotations

import gc
import importlib
import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any
from urllib.parse import urlsplit

import msgspec

from ethogram.capture.draft import Draft
from ethogram.errors import BadUsage
from ethogram.perturbations.catalogue import FILES
from ethogram.perturbations.model import ModelOperator
from ethogram.perturbations.operator import checked_intensity
from ethogram.perturbations.prompt import PromptOperator
from ethogram.perturbations.tools import ToolOperator, ToolPerturbation
from ethogram.plans import derived_seed
from ethogram.prices import CallPrices, Metering
from ethogram.prices.settings import price_list
from ethogram.result import Result
from ethogram.store import Home
from ethogram.store.lake import GATEWAY, METERS
from ethogram.wire.gateway.call import CallPolicy
from ethogram.wire.gateway.faults import ModelFaults, PromptFaults, ToolFaults
from ethogram.wire.gateway.gateway import Gateway
from ethogram.wire.gateway.upstreams import PROVIDERS, upstreams_of
from ethogram.wire.session_remote import RemoteSessions
from ethogram.wire.stopping import StopEvent, on_stop_signals

from .account import experiment_budget
from .disturbance import Disturbance
from .live import KillSwitch
from .open_episodes import OpenEpisodes, OpenRules, Per
from .options import AllCaps
from .planning import fresh_name
from .spent import check_spent, read_books

PLAN: dict[str, Any] = {METERS: ["steps", "tokens", "usd"], "captured": True}
SWITCH_SECONDS = 0.0005
"""How long a thread may keep others waiting: clients wait for the one that serves."""
RARELY = (1000, 10, 100)
"""When garbage is collected: to look through all open conversations takes milliseconds, and they are no garbage."""
USUAL = "openai"
"""Whose upstream an address is that names no provider: most servers speak the API of OpenAI."""


class GatewayResult(Result, kw_only=True):
    """Where a gateway listens, which variables lead to it, and what passed; counts are 0 while it begins.

    `cost_usd` and `tokens` of the run are unknown where a call could not be read or priced; `at_least_usd` and
    `at_least_tokens` are what was recorded. `unread` calls were forwarded in a form that is not read here. `exit_code`
    is that of the command.
    """

    address: str
    run: str
    variables: dict[str, str]
    traces: int = 0
    calls: int = 0
    unread: int = 0
    cost_usd: float | None = None
    tokens: int | None = None
    at_least_usd: float = 0.0
    at_least_tokens: int = 0
    killed: bool = False
    exit_code: int = 0


class GatewaySettings(msgspec.Struct, frozen=True, kw_only=True):
    """Where calls go, what they may use, what is done to them, and the command that makes them, if there is one."""

    upstreams: dict[str, str] = {}
    command: tuple[str, ...] = ()
    port: int = 0
    run: str | None = None
    per: Per = "conversation"
    caps: AllCaps = AllCaps()
    metering: Metering = Metering()
    redact: str = "default"
    operator: str | None = None
    intensity: float = 1.0
    seed: int = 0
    tools: tuple[str, ...] = ()


def parse_upstreams(words: Sequence[str]) -> dict[str, str]:
    """Upstreams from words such as `http://127.0.0.1:8000/v1` or `anthropic=https://…`; raises `BadUsage`.

    An address without a name is the upstream of the provider whose own it is, else that of OpenAI's clients.
    """
    found: dict[str, str] = {}
    for word in words:
        name, equals, address = word.partition("=")
        if not equals or "/" in name or ":" in name:
            name, address = _owner_of(word), word
        if name in found:
            raise BadUsage(f"two upstreams are given for {name!r}; name the provider of each: --upstream NAME=ADDRESS")
        found[name] = address
    return found


def _owner_of(address: str) -> str:
    host = urlsplit(address).hostname
    own = {name: urlsplit(known.address).hostname for name, known in PROVIDERS.items() if known.address}
    return next((name for name, known in own.items() if known == host), USUAL)


def run_gateway(
    settings: GatewaySettings, home: Home, ready: Callable[[GatewayResult], None] = lambda result: None
) -> GatewayResult:
    """Serve until the command ends or, without one, until SIGINT or SIGTERM; all that passed is stored then.

    Args:
        settings: where calls go, and what holds for them.
        home: where the run is kept.
        ready: told of the address and the variables once it serves.

    Returns:
        What passed; its exit code is the command's own.

    Raises:
        BadUsage: for settings that cannot be kept, a port that is taken, and a command that cannot be started.
    """
    if settings.caps.task.named():
        raise BadUsage("calls of a gateway belong to no task; cap the experiment or the episode")
    policies = _policies(settings)
    metering = settings.metering
    if metering.prices is None:
        metering = msgspec.structs.replace(metering, prices=price_list().own)
    upstreams = upstreams_of(os.environ, settings.upstreams)
    if settings.command and shutil.which(settings.command[0]) is None:
        raise BadUsage(f"there is no command {settings.command[0]!r} on this machine")
    opened: list[OpenEpisodes] = []
    gateway = Gateway(
        upstreams,
        port=settings.port,
        strays=lambda name, request: opened[0](name, request),
        # without caps and operators only the switch can refuse a call
        free=None if settings.caps.limited() or settings.operator is not None else lambda: not switch(),
    )
    try:
        store = RemoteSessions(
            home, settings.run or fresh_name(home, GATEWAY), GATEWAY, redact=settings.redact, plan=PLAN
        )
    except BaseException:
        gateway.close()
        raise
    switch, turns, collected = KillSwitch(store.run), sys.getswitchinterval(), gc.get_threshold()
    account = ExitStack()
    try:
        books = read_books(store.run)
        check_spent(store.run, books, settings.caps, metering)
        rules = OpenRules(
            budget=account.enter_context(experiment_budget(store.run, settings.caps.experiment, books.total)),
            caps=settings.caps.episode,
            prices=metering.calls(),
            allow_unmetered=metering.allow_unmetered,
            stop=switch,
            policies=policies,
            per=settings.per,
            agent=shlex.join(settings.command),
        )
        opened.append(OpenEpisodes(gateway, store, rules))
        result = GatewayResult(address=gateway.address, run=store.run.name, variables=gateway.variables())
        _warm(rules.prices)
        sys.setswitchinterval(SWITCH_SECONDS)
        gateway.start()
        result.exit_code = _until_over(settings.command, result, ready)
    finally:
        gateway.close()
        account.close()
        sys.setswitchinterval(turns)
        gc.unfreeze()
        gc.set_threshold(*collected)
        switch.close()
        store.close()
    return _told(result, store, opened[0], switch)


def _warm(prices: CallPrices) -> None:
    """Do now what would delay calls: imports, and the collection of garbage among all that is loaded by now."""
    importlib.import_module("httpx")
    prices.cost(Draft(kind="model", name="", model="gpt-4o", provider="openai", input_tokens=1, output_tokens=1))
    gc.collect()
    gc.freeze()  # what is here stays; to look through it takes 60 ms
    gc.set_threshold(*RARELY)


def _told(result: GatewayResult, store: RemoteSessions, episodes: OpenEpisodes, switch: KillSwitch) -> GatewayResult:
    """The result with what the run holds now."""
    store.run.forget_cache()
    books = read_books(store.run)
    result.traces, result.killed = episodes.traces, switch()
    result.calls, result.unread = episodes.totals()
    result.at_least_usd, result.at_least_tokens = books.total.usd, int(books.total.tokens)
    result.cost_usd = None if "usd" in books.unmetered else result.at_least_usd
    result.tokens = None if "tokens" in books.unmetered else result.at_least_tokens
    return result


def _until_over(command: Sequence[str], result: GatewayResult, ready: Callable[[GatewayResult], None]) -> int:
    """Wait for the end: that of the command, whose exit code this gives, or a signal."""
    over = StopEvent()
    child: subprocess.Popen[bytes] | None = None

    def take(number: int) -> None:
        if child is None:
            over.set(number)
        else:
            _pass_on(number, child)

    with on_stop_signals(take):
        if not command:
            ready(result)
            over.wait()
            return 0
        try:
            child = subprocess.Popen(list(command), env={**os.environ, **result.variables})  # noqa: S603 - the user's own
        except OSError as error:
            raise BadUsage(f"the command {command[0]!r} cannot be started: {error.strerror}") from None
        if over.is_set():
            _pass_on(signal.SIGTERM, child)
        ready(result)
        code = child.wait()
        return code if code >= 0 else 128 - code


def _pass_on(number: int, child: subprocess.Popen[bytes]) -> None:
    """Tell the command of a signal; Ctrl-C of a terminal reaches it by itself."""
    if child.poll() is None and not (number == signal.SIGINT and sys.stdin.isatty()):
        child.send_signal(number)


def _policies(settings: GatewaySettings) -> Callable[[str, int], tuple[CallPolicy, ...]]:
    """What disturbs the calls of an episode, by its task and attempt; raises where an operator cannot."""
    if settings.operator is None:
        return lambda task, attempt: ()
    if any(known.name == settings.operator for known in FILES):
        raise BadUsage(f"{settings.operator} changes files, which do not pass a gateway; see: ethogram operators")
    wanted = Disturbance(operator=settings.operator, seed=settings.seed, intensity=settings.intensity)
    operator, tools = wanted.find(), settings.tools or None
    checked_intensity(settings.intensity)

    def made(task: str, attempt: int) -> tuple[CallPolicy, ...]:
        seed = derived_seed(settings.seed, f"gateway:{task}:{attempt}")
        if isinstance(operator, ToolOperator):
            return (ToolFaults(ToolPerturbation(operator, seed, settings.intensity, only=tools)),)
        if isinstance(operator, ModelOperator):
            return (ModelFaults(operator, seed, settings.intensity),)
        if not isinstance(operator, PromptOperator):
            raise BadUsage(f"{settings.operator} changes files, which do not pass a gateway; see: ethogram operators")
        return (PromptFaults(operator, seed, settings.intensity),)

    made("", 0)  # what cannot be used is refused before anything starts
    return made


def shown_variables(variables: Mapping[str, str]) -> dict[str, str]:
    """The variables that a person has to set: those of providers."""
    return {name: value for name, value in variables.items() if name.lower() != "no_proxy"}
