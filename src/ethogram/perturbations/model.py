"""Operators on calls of models: errors that clients try again or not, replies that come late, short or broken off.

An intensity is the share of calls that are hit. Whether a call is hit depends on the seed and on the number of the call
in its episode only, so that a larger intensity hits the same calls and more. A client that tries again makes another
call. Carried out where the calls pass: `wire/gateway/faults.py`.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import msgspec

from ethogram.errors import NotFound
from ethogram.plans import derived_seed

from .operator import OperatorKind, checked_intensity


class ModelFault(msgspec.Struct, frozen=True, kw_only=True):
    """What happens to one call: an error `status` in place of a reply, else a reply that is late, short or cut."""

    summary: str
    status: int | None = None
    message: str = ""
    delay_seconds: float = 0.0
    at_most_tokens: int | None = None
    cut_after: int | None = None
    """Bytes of the reply after which the connection breaks."""


class ModelOperator:
    """One kind of trouble with calls of a model."""

    kind: OperatorKind = "model"
    formats: tuple[str, ...] = ("model",)
    dose = "every call"

    def __init__(self, name: str, does: str, make: Callable[[random.Random], ModelFault]) -> None:
        """`make` draws the trouble of one call."""
        self.name = name
        self.does = does
        self._make = make

    def __repr__(self) -> str:
        return f"<operator {self.name} (model)>"

    def hits(self, number: int, seed: int, intensity: float = 1.0) -> bool:
        """Whether the call of this number (from 0) is one of those that are changed."""
        return self._rng(number, seed, "hit").random() < checked_intensity(intensity)

    def fault(self, number: int, seed: int) -> ModelFault:
        """What happens to the call of this number."""
        return self._make(self._rng(number, seed, "fault"))

    def _rng(self, number: int, seed: int, purpose: str) -> random.Random:
        return random.Random(derived_seed(seed, f"perturb:{self.name}:{number}:{purpose}"))


def _error(status: int, message: str) -> Callable[[random.Random], ModelFault]:
    fault = ModelFault(summary=f"HTTP {status}: {message}", status=status, message=message)
    return lambda rng: fault


def _late(rng: random.Random) -> ModelFault:
    seconds = round(rng.uniform(1.0, 5.0), 3)
    return ModelFault(summary=f"the reply came {seconds:.1f} s later", delay_seconds=seconds)


def _short(rng: random.Random) -> ModelFault:
    tokens = rng.randint(4, 24)
    return ModelFault(summary=f"the reply was limited to {tokens} tokens", at_most_tokens=tokens)


def _cut(rng: random.Random) -> ModelFault:
    size = rng.randint(1, 200)  # less than any reply has
    return ModelFault(summary=f"the connection broke after {size} bytes of the reply", cut_after=size)


OPERATORS: tuple[ModelOperator, ...] = (
    ModelOperator(
        "model_rate_limit",
        "the call is refused with status 429, which clients try again",
        _error(429, "Rate limit reached for requests. Please try again later."),
    ),
    ModelOperator(
        "model_error",
        "the call fails with status 500, which clients try again",
        _error(500, "The server had an error while processing your request."),
    ),
    ModelOperator(
        "model_overload",
        "the call fails with status 529, overloaded, which clients try again",
        _error(529, "Overloaded"),
    ),
    ModelOperator(
        "model_context_limit",
        "the call is refused with status 400, input too long, which clients do not try again",
        _error(400, "The input is longer than the context window of this model."),
    ),
    ModelOperator("model_latency", "the reply comes 1 to 5 seconds later", _late),
    ModelOperator("model_truncated", "the reply is limited to a few tokens", _short),
    ModelOperator("model_cut", "the connection breaks in the middle of the reply", _cut),
)
BY_NAME = {operator.name: operator for operator in OPERATORS}


def model_operator(name: str) -> ModelOperator:
    """An operator on calls of models by its name."""
    if name not in BY_NAME:
        raise NotFound.named("model operator", name, list(BY_NAME))
    return BY_NAME[name]
