"""Tokens and cost in every spelling, turned into ours: fresh input, cache apart, output with its reasoning.

OpenTelemetry and OpenInference count cached tokens inside the input; Anthropic's raw counts and Langfuse's own
do not. Where a total is given it settles which was meant; counts that would be negative prove that the input
was exclusive. The same holds for reasoning inside or beside the output.
"""

from __future__ import annotations

from typing import Any

from ethogram.capture.parse import as_int

from .span_attributes import Bag

_INPUT = ("input_tokens", "prompt_tokens")
_OUTPUT = ("output_tokens", "completion_tokens")
_READ = ("cache_read.input_tokens", "cache_read_input_tokens", "cache_read_tokens", "input_tokens.cached")
_WRITE = (
    "cache_write.input_tokens",
    "cache_creation.input_tokens",
    "cache_creation_input_tokens",
    "cache_write_input_tokens",
    "cache_write_tokens",
)
_REASONING = ("reasoning.output_tokens", "reasoning_tokens", "output_tokens.reasoning", "reasoning_output_tokens")
_DETAILS = ("details.cache_read_tokens", "details.cache_read_input_tokens", "details.cached_tokens")
_PLACES = ("gen_ai.usage.", "gen_ai.aggregated_usage.", "llm.usage.")


def _everywhere(*names: str) -> tuple[str, ...]:
    return tuple(place + name for place in _PLACES for name in names)


SPELLINGS: dict[str, tuple[str, ...]] = {
    "input_tokens": (
        *_everywhere(*_INPUT),
        "llm.token_count.prompt",
        "ai.usage.inputTokens",
        "ai.usage.promptTokens",
    ),
    "output_tokens": (
        *_everywhere(*_OUTPUT),
        "llm.token_count.completion",
        "ai.usage.outputTokens",
        "ai.usage.completionTokens",
    ),
    "cache_read_tokens": (
        *_everywhere(*_READ, *_DETAILS),
        "llm.token_count.prompt_details.cache_read",
        "ai.usage.cachedInputTokens",
    ),
    "cache_write_tokens": (
        *_everywhere(*_WRITE, "details.cache_write_tokens", "details.cache_creation_input_tokens"),
        "llm.token_count.prompt_details.cache_write",
    ),
    "reasoning_tokens": (
        *_everywhere(*_REASONING, "details.reasoning_tokens"),
        "llm.token_count.completion_details.reasoning",
        "ai.usage.reasoningTokens",
    ),
}
TOTALS = (*_everywhere("total_tokens"), "llm.token_count.total", "ai.usage.totalTokens")
COSTS = ("ethogram.cost_usd", "gen_ai.usage.cost", "gen_ai.usage.total_cost", "llm.cost.total", "operation.cost")
USAGE_KEYS = frozenset(key for keys in SPELLINGS.values() for key in keys)

COUNT_KEYS = USAGE_KEYS | frozenset(TOTALS)
_PROMPT_COSTS = ("llm.cost.prompt", "gen_ai.usage.input_cost")
_COMPLETION_COSTS = ("llm.cost.completion", "gen_ai.usage.output_cost")
COST_KEYS = frozenset([*COSTS, *_PROMPT_COSTS, *_COMPLETION_COSTS])

SpanTokens = dict[str, int | None]

_LANGFUSE: dict[str, tuple[str, ...]] = {
    "input_tokens": ("input", "prompt", "input_tokens", "prompt_tokens", "promptTokens"),
    "output_tokens": ("output", "completion", "output_tokens", "completion_tokens", "completionTokens"),
    "cache_read_tokens": (
        "input_cache_read",
        "input_cached_tokens",
        "cache_read_input_tokens",
        "cache_read.input_tokens",
        "input_cache_read_tokens",
        "cached_tokens",
        "prompt_details.cache_read",
    ),
    "cache_write_tokens": (
        "input_cache_creation",
        "cache_creation_input_tokens",
        "cache_creation.input_tokens",
        "cache_write.input_tokens",
        "input_cache_write",
        "prompt_details.cache_write",
    ),
    "reasoning_tokens": (
        "output_reasoning",
        "output_reasoning_tokens",
        "reasoning.output_tokens",
        "reasoning_tokens",
        "completion_details.reasoning",
    ),
}


def take_tokens(bag: Bag, *, exact: bool = False) -> SpanTokens:
    """Token counts of a span; `exact` (our own writer) means that nothing has to be guessed."""
    present = COUNT_KEYS & bag.rest.keys()
    if not present:
        return {}
    counts: SpanTokens = {field: bag.take_int(*filter(present.__contains__, keys)) for field, keys in SPELLINGS.items()}
    total = next((t for k in TOTALS if k in bag and (t := as_int(bag.rest[k])) is not None), None)
    counts = settle(counts, total, exact=exact)
    if total is not None and total == _sum(counts):
        for key in TOTALS:
            if as_int(bag.rest.get(key)) == total:
                del bag.rest[key]
    return counts


def settle(counts: SpanTokens, total: int | None, *, inclusive: bool = True, exact: bool = False) -> SpanTokens:
    """Fresh input and full output, from counts that may include the cache and leave out the reasoning."""
    given, output = counts["input_tokens"], counts["output_tokens"]
    cached = (counts["cache_read_tokens"] or 0) + (counts["cache_write_tokens"] or 0)
    reasoning = counts["reasoning_tokens"] or 0
    if given is not None and cached > 0:
        apart = total is not None and total in (
            given + cached + (output or 0),
            given + cached + (output or 0) + reasoning,
        )
        within = total is not None and total in (given + (output or 0), given + (output or 0) + reasoning)
        if cached <= given and not apart and (inclusive or within):
            counts = {**counts, "input_tokens": given - cached}
    if output is not None and reasoning > 0 and not exact:
        before = (counts["input_tokens"] or 0) + cached + output
        if reasoning > output or (total is not None and total == before + reasoning):
            counts = {**counts, "output_tokens": output + reasoning}
    return counts


def _sum(counts: SpanTokens) -> int:
    return sum(counts[f] or 0 for f in ("input_tokens", "cache_read_tokens", "cache_write_tokens", "output_tokens"))


def langfuse_tokens(details: dict[str, Any]) -> tuple[SpanTokens, dict[str, Any]]:
    """Counts of Langfuse's `usageDetails`, whose buckets exclude each other, and the details that were not used."""
    left = dict(details)
    counts: SpanTokens = {}
    for field, keys in _LANGFUSE.items():
        key = next((k for k in keys if as_int(left.get(k)) is not None), None)
        counts[field] = as_int(left.pop(key)) if key else None
    total = as_int(left.get("total"))
    nested = any(k.startswith("prompt_details.") for k in details)
    counts = settle(counts, total, inclusive=nested)
    if total is not None and total == _sum(counts):
        del left["total"]
    return counts, {k: v for k, v in left.items() if as_int(v) != 0}


def take_cost(bag: Bag) -> float | None:
    """US dollars: a total, or prompt and completion together."""
    total = bag.take_float(*COSTS)
    if total is not None:
        return total
    prompt = bag.take_float(*_PROMPT_COSTS)
    completion = bag.take_float(*_COMPLETION_COSTS)
    return None if prompt is None and completion is None else (prompt or 0.0) + (completion or 0.0)
