"""The promise of a gate that buys attempts: what its looks were planned from, kept with the run that it bought."""

from __future__ import annotations

import msgspec

from ethogram.store import Run

from .plan import GateSettings

META = "gate"
"""Where a run that a gate bought keeps what was promised when it began."""


class Promise(msgspec.Struct, frozen=True, kw_only=True):
    """What a run that a gate buys remembers: all that its looks were planned from.

    `quarantined` are the tasks that did not count, `baseline` how many scored attempts a stored baseline had, `tasks`
    those that the plan was made for: a run that stopped early has not attempted all of them.
    """

    base: str
    settings: GateSettings
    quarantined: list[str] | None = None
    baseline: int | None = None
    tasks: list[str] | None = None

    def text(self) -> str:
        """As it is kept."""
        return msgspec.json.encode(self).decode()

    def broken(self, now: Promise) -> str | None:
        """What differs now, in words; facts that an older run did not keep do not count."""
        told = []
        for name in ("base", "quarantined", "baseline"):
            was, new = getattr(self, name), getattr(now, name)
            if was != new and (was is not None or name == "base"):
                told.append(f"{name} was {was if was != [] else 'empty'} and is {new if new != [] else 'empty'}")
        for name in self.settings.__struct_fields__:
            was, new = getattr(self.settings, name), getattr(now.settings, name)
            if was != new:
                told.append(f"{name} was {was} and is {new}")
        return "; ".join(told) or None


def promise_of(one: Run, two: Run) -> Promise | None:
    """What a gate promised when it bought the candidate's attempts, if it did so against this base."""
    text = two.info.meta.get(META)
    begun = None if text is None else msgspec.json.decode(str(text), type=Promise)
    return begun if begun is not None and begun.base == one.name else None


def as_promised(one: Run, begun: Promise, settings: GateSettings) -> GateSettings:
    """What a gate bought is judged as it was bought, whatever is asked now: afresh, in that order, alpha shared."""
    old = begun.settings
    settings = msgspec.structs.replace(settings, confirm=old.confirm, ahead=old.ahead)
    if META not in one.info.meta or not old.fresh:
        return settings
    return msgspec.structs.replace(settings, fresh=True, pilot=old.pilot)
