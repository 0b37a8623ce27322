"""Options of an experiment, and how they are kept in `run.json`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import msgspec

from ethogram.errors import BadUsage
from ethogram.plans import Condition
from ethogram.prices import Caps, Metering
from ethogram.prices.budget import RESOURCES
from ethogram.prices.settings import price_list
from ethogram.traces import Param
from ethogram.wire.gateway.breaker import EQUAL_REFUSALS

from .environment import Environment
from .isolation import AUTO, isolation_here
from .processes import CommandBounds

ADDRESS = ("http://", "https://")
LEVELS = ("experiment", "task", "episode")
CAPTURES = ("auto", "gateway", "off")
"""How model calls of an agent are captured: `auto` leaves out agents that record all their use by themselves."""


class AllCaps(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Limits at every level."""

    experiment: Caps = Caps()
    task: Caps = Caps()
    episode: Caps = Caps()

    def limited(self) -> set[str]:
        """Resources that are limited at any level."""
        return {name for level in LEVELS for name in getattr(self, level).named()}


class ReplayOf(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A recorded run that answers; `providers` are those whose models were called in it."""

    run: str
    providers: tuple[str, ...] = ()


class RunOptions(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How to run a suite."""

    k: int = 1
    seed: int = 0
    name: str | None = None
    engine: str = "local"
    workers: int = 8
    limit: int | None = None
    tasks: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    meta: Mapping[str, Param] = {}
    caps: AllCaps = AllCaps()
    conditions: tuple[Condition, ...] = (Condition(),)
    retries: int = 2
    redact: str = "default"
    seal: bool | None = None
    keep: str = "never"
    isolation: str = AUTO
    bounds: CommandBounds = CommandBounds()
    environment: Environment = Environment()
    metering: Metering = Metering()
    capture: str = "auto"
    """One of `CAPTURES`, or the address of the gateway under which the user started an agent behind an address."""
    breaker: int = EQUAL_REFUSALS
    """How many equal refusals of a provider stop the run; 0: none do."""
    replay: ReplayOf | None = None
    """The run whose recorded answers are given again, so that nothing is called and no key is needed."""

    def recorded(self) -> dict[str, Any]:
        """As `run.json` keeps them: values of environment variables may be secrets and are left out."""
        kept = msgspec.structs.replace(self, environment=self.environment.names_only())
        built: dict[str, Any] = msgspec.to_builtins(kept)
        return built

    @classmethod
    def stored(cls, plan: Mapping[str, Any]) -> RunOptions:
        """The options in the plan of a `run.json`; earlier versions stored `workers` as `max_concurrency`, and isolated
        nothing of themselves."""
        kept = {"isolation": "none", **plan["options"]}
        if "max_concurrency" in kept:
            kept["workers"] = kept.pop("max_concurrency")
        return msgspec.convert(kept, cls)

    def resolved(self) -> RunOptions:
        """With what our environment holds now: checked before a run begins, and the same on every engine."""
        if self.capture not in CAPTURES and not self.capture.startswith(ADDRESS):
            raise BadUsage(
                f"there is no capture {self.capture!r}; choose {', '.join(CAPTURES)}, or give the address of a gateway"
            )
        if not isinstance(self.caps, AllCaps):
            raise BadUsage(
                f"caps must be an AllCaps, such as AllCaps(episode=Caps(usd=0.05)), not a {type(self.caps).__name__}",
                option="caps",
                value=self.caps,
            )
        metering = self.metering
        if metering.prices is None:
            metering = msgspec.structs.replace(metering, prices=price_list().own)
        environment = self.environment
        if self.replay is not None:  # keys that the recorded run was passed need not be here
            environment = environment.available()
        isolation = isolation_here(self.isolation)
        return msgspec.structs.replace(self, environment=environment.resolved(), metering=metering, isolation=isolation)


def changed(options: RunOptions, changes: Mapping[str, Any]) -> RunOptions:
    """Options of a run for its next session: what is not None is changed; what was passed before still is."""
    new = {name: value for name, value in changes.items() if value is not None}
    for name in ("environment", "metering"):
        if name in new:
            new[name] = new[name].over(getattr(options, name))
    return msgspec.structs.replace(options, **new)


def parse_caps(pairs: dict[str, float | None], more: tuple[str, ...]) -> AllCaps:
    """Caps from `{"episode.steps": 20, …}` and from words such as `task.usd=1.5`."""
    levels: dict[str, dict[str, Any]] = {level: {} for level in LEVELS}
    for place, value in pairs.items():
        if value is not None:
            _put(levels, place, value)
    for word in more:
        place, equals, text = word.partition("=")
        try:
            value = float(text)
        except ValueError:
            equals = ""
        if not equals:
            raise BadUsage(f"{word!r} is not a cap; write for example --cap episode.usd=0.05")
        _put(levels, place, value)
    return AllCaps(**{level: Caps(**found) for level, found in levels.items()})


def _put(levels: dict[str, dict[str, Any]], place: str, value: float | None) -> None:
    level, _, resource = place.partition(".")
    if level not in LEVELS or resource not in RESOURCES:
        raise BadUsage(f"{place!r} cannot be capped; levels are {', '.join(LEVELS)}, resources {', '.join(RESOURCES)}")
    if value is None or not 0 < value < math.inf:
        raise BadUsage(f"the cap {place} must be more than 0, not {value}")
    levels[level][resource] = int(value) if resource in ("steps", "tokens") else value


def parse_bounds(words: tuple[str, ...]) -> CommandBounds:
    """CommandBounds from words such as `disk_mib=2048`."""
    given = {}
    for word in words:
        name, _, text = word.partition("=")
        if name not in CommandBounds.__struct_fields__ or not text.isdecimal() or int(text) == 0:
            raise BadUsage(
                f"{word!r} is not a bound; write for example --bound disk_mib=2048; there are "
                f"{', '.join(CommandBounds.__struct_fields__)}"
            )
        given[name] = int(text)
    return CommandBounds(**given)


def parse_meta(pairs: tuple[str, ...]) -> dict[str, str]:
    """Facts about the agent from `key=value` words."""
    found = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise BadUsage(f"{pair!r} is not a fact; write for example --meta temperature=0.7")
        found[key] = value
    return found


def parse_conditions(words: tuple[str, ...]) -> tuple[Condition, ...]:
    """Conditions from words such as `tests=on,temperature=0.5`: each is named by its word, and keeps its settings.

    Numbers, true and false are read as such, everything else as text; the agent finds them in `episode.condition`.
    `perturb=model_error@0.5` is not for the agent: it disturbs the episodes with an operator.
    """
    made = []
    for word in words:
        settings = {}
        for pair in word.split(","):
            key, equals, value = (part.strip() for part in pair.partition("="))
            if not equals or not key or not value or key in settings:
                raise BadUsage(f"{word!r} is not a condition; write for example --condition tests=on,temperature=0.5")
            settings[key] = _plain_value(value)
        _check_disturbance(settings)
        made.append(Condition(name=",".join(f"{k}={v}" for k, v in settings.items()), settings=settings))
    names = [c.name for c in made]
    twice = next((n for n in names if names.count(n) > 1), None)
    if twice is not None:
        raise BadUsage(f"the condition {twice!r} is given twice")
    return tuple(made)


def _check_disturbance(settings: dict[str, Any]) -> None:
    """Refuse what is no operator, before anything runs."""
    from .disturbance import disturbance_of

    wanted = disturbance_of(settings)
    if wanted is not None:
        wanted.find()


def _plain_value(text: str) -> str | float | int | bool:
    try:
        value = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text
    return value if isinstance(value, int | float | bool) else text
