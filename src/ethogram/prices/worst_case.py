"""The most that a call can use, known before it is made: budgets set that aside."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from .budget import Amounts, Caps
from .metering import CallPrices
from .prices import PER, context_window

OUTPUT_LIMITS = {
    "chatgpt-4o": 16_384,
    "claude": 128_000,
    "claude-3-5": 8_192,
    "claude-3-haiku": 4_096,
    "claude-3-opus": 4_096,
    "deepseek": 65_536,
    "gemini": 65_536,
    "gemini-1.5": 8_192,
    "gemini-2.0": 8_192,
    "gpt-3.5": 4_096,
    "gpt-4": 8_192,
    "gpt-4-turbo": 4_096,
    "gpt-4.1": 32_768,
    "gpt-4.5": 16_384,
    "gpt-4o": 16_384,
    "gpt-5": 128_000,
    "gpt-5-pro": 272_000,
    "o1": 100_000,
    "o1-mini": 65_536,
    "o3": 100_000,
    "o4": 100_000,
}
"""The most tokens of one answer where the client sets no limit, by how names of models begin: providers state them.
The longest beginning that fits counts; for others the context window is the limit."""


class CallSize(NamedTuple):
    """What bounds a call: tokens of its input at most (None: all that the model can hold), the limit that the client
    sets for all its answers together, how many answers it asks for, and what may be dearer."""

    input_tokens: int | None
    output_limit: int | None
    answers: int = 1
    cache_write: bool = False
    cache_write_1h: bool = False
    tier: str | None = None


class WorstCase(NamedTuple):
    """What a call may use at most; `per_output` is dollars per token of its answer.

    Where the model's price is unknown, dollars are 0; where nothing bounds its answer, `bounded` is false and the
    amounts are those of its input.
    """

    amounts: Amounts
    bounded: bool = True
    input_tokens: int = 0
    input_usd: float = 0.0
    per_output: float = 0.0
    priced: bool = True


def output_limit(model: str | None, provider: str | None) -> int | None:
    """The most tokens that one answer of a model can have; None where that is not known."""
    if not model:
        return None
    name = model.rpartition("/")[2].removeprefix("ft:")
    fitting = [beginning for beginning in OUTPUT_LIMITS if name.startswith(beginning)]
    return OUTPUT_LIMITS[max(fitting, key=len)] if fitting else context_window(model, provider)


def worst_case(prices: CallPrices, model: str | None, provider: str | None, at_ns: int, size: CallSize) -> WorstCase:
    """What a call may use at most: an upper bound of its input at the dearest rate that it may have, and its limit."""
    given = size.input_tokens
    window = context_window(model, provider) if model and (given is None or given > LONG_INPUT) else None
    held = given if window is None else window if given is None else min(given, window)
    limit = size.output_limit
    if limit is None:
        each = output_limit(model, provider)
        limit = None if each is None else each * size.answers
    bounded = held is not None and limit is not None
    tokens_in, tokens_out = held or 0, limit or 0
    rates = prices.rates_at_most(model, provider, at_ns, size.tier, tokens_in)
    if rates is None:
        return WorstCase(Amounts(steps=1, tokens=tokens_in + tokens_out), bounded, tokens_in, priced=False)
    dearest = max(
        rates.fresh,
        rates.cache_write if size.cache_write else 0.0,
        (rates.cache_write_1h or 0.0) if size.cache_write_1h else 0.0,
    )
    per_output = max(rates.output, rates.reasoning) / PER
    input_usd = rates.per_call + tokens_in * dearest / PER
    amounts = Amounts(steps=1, tokens=tokens_in + tokens_out, usd=input_usd + tokens_out * per_output)
    return WorstCase(amounts, bounded, tokens_in, input_usd, per_output)


LONG_INPUT = 1 << 16
"""Of an input with fewer bytes the context window is no tighter bound, so that it is not looked up."""


SOME_MODELS = ("gpt-4o-mini", "gpt-5")
"""Said as examples where nothing tells which model will be called."""
SMALL_INPUT = 1_000


def promise(level: str, caps: Caps, prices: CallPrices, models: Sequence[str], at_ns: int) -> str | None:
    """What a cap on dollars or tokens promises, and how many calls fit below it at once; None without such a cap."""
    limits = {name: cap for name, cap in caps.named().items() if name in ("usd", "tokens")}
    if not limits:
        return None
    told = []
    for model in models or SOME_MODELS:
        most = worst_case(prices, model, None, at_ns, CallSize(SMALL_INPUT, None))
        limit = output_limit(model, None)
        if limit is None or not (most.priced or "usd" not in limits):
            told.append(
                f"{model}: its {'price' if limit else 'limit'} is not known, so up to one call per caller beyond"
            )
            continue
        fit = min(int(cap / getattr(most.amounts, name)) for name, cap in limits.items())
        told.append(f"{fit:,} of {model} without max_tokens ({limit:,})")
    capped = " and ".join(f"{cap:g} {name}" for name, cap in limits.items())
    return (
        f"the {level}'s cap of {capped}: each call is held to the most that it can use, its input and its max_tokens "
        f"(else the model's own limit), before it goes out; at once fit {', '.join(told)}; a lower max_tokens lets "
        "more through"
    )
