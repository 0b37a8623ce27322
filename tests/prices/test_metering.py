"""A call priced as it is recorded costs what the columns of a run say afterwards."""

from __future__ import annotations

from datetime import date

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ethogram.capture.draft import Draft
from ethogram.prices import Amounts, Budget, CallPrices, Caps, Metering, OwnPrice, PriceList, Unmetered, own_rates
from ethogram.prices.usage import COLUMNS, calls_of, charge, gather, steps_of

NOON = 1_760_000_000_000_000_000
OWN = (
    OwnPrice(model="house", rates=own_rates(1, 4), first=date(2025, 1, 1), last=date(2025, 12, 31)),
    OwnPrice(model="m-*", rates=own_rates(2, 8, 0.5, 3, 6)),
    OwnPrice(model="tall", rates=own_rates(1, 1), provider="here"),
)
COUNTS = st.none() | st.integers(0, 300_000)


def call(**said: object) -> Draft:
    return msgspec.structs.replace(Draft(kind="model", name="chat", start_ns=NOON), **said)


def test_by_hand() -> None:
    prices = CallPrices(PriceList(OWN))
    told = {"input_tokens": 1000, "cache_read_tokens": 2000, "cache_write_tokens": 10, "output_tokens": 100}
    # 1000 × 2 + 2000 × 0.5 + 10 × 3 + (100 − 40) × 8 + 40 × 6, per million
    assert prices.cost(call(model="m-1", **told, reasoning_tokens=40)) == pytest.approx(3750e-6)
    assert prices.cost(call(model="gpt-4o", input_tokens=100_000, output_tokens=20_000)) == pytest.approx(0.45)
    assert prices.cost(call(model="gpt-4o", cost_usd=0.25, input_tokens=5)) == 0.25
    assert prices.cost(call(model="m-1", cost_usd=0.0, input_tokens=1_000_000)) == pytest.approx(2.0)  # not believed
    assert prices.cost(call(model="m-1", provider="local", cost_usd=0.0, input_tokens=9)) == 0.0
    assert prices.cost(call(model="m-1")) == "the call tells no token counts"
    assert prices.cost(call(input_tokens=1)) == "the log does not name the model"
    late = call(model="house", start_ns=NOON + 10**17, input_tokens=1)
    assert prices.cost(late) == "your own price is not for 2028-12-09"
    any_model = CallPrices(PriceList([OwnPrice(model="*", rates=own_rates(1, 1))]))
    assert any_model.cost(call(input_tokens=1_000_000)) == pytest.approx(1.0)


@settings(deadline=None)
@given(
    model=st.sampled_from([None, "house", "m-1", "tall", "gpt-4o", "claude-sonnet-4-5", "gemini-2.5-pro", "nobody"]),
    provider=st.sampled_from([None, "here", "local"]),
    recorded=st.sampled_from([None, 0.0, 0.5]),
    counts=st.tuples(COUNTS, COUNTS, COUNTS, COUNTS, COUNTS),
)
def test_one_call_is_priced_as_the_columns_are(
    model: str | None, provider: str | None, recorded: float | None, counts: tuple[int | None, ...]
) -> None:
    names = ("input_tokens", "cache_read_tokens", "cache_write_tokens", "output_tokens", "reasoning_tokens")
    told = dict(zip(names, counts, strict=True))
    prices = PriceList(OWN)
    alone = CallPrices(prices).cost(call(model=model, provider=provider, cost_usd=recorded, **told))
    row: dict[str, object] = dict.fromkeys(COLUMNS)
    row |= {"trace_id": "t", "lane": "", "kind": "model", "status": "ok", "name": "chat", "span_id": "s", "seq": 0}
    row |= {"step": 0, "start_ns": NOON, "model": model, "provider": provider, "cost_usd": recorded, "keep": 0}
    row |= {"input": [], **told}
    text = {n: pa.string() for n in ("model", "provider", "tool", "trace_id", "result", "continues")}
    kinds = {**text, "input": pa.list_(pa.string()), "cost_usd": pa.float64(), **dict.fromkeys(names, pa.int64())}
    columns = [pa.array([row[n]], kinds.get(n)) for n in COLUMNS]
    steps = steps_of(gather([pa.RecordBatch.from_arrays(columns, names=list(COLUMNS))]), lambda trace: set())
    charged = charge(calls_of(steps), steps, prices, undated_ns=NOON)
    if isinstance(alone, str):
        assert charged.source[0] == 0
    else:
        assert alone == pytest.approx(float(charged.cost[0]))


def test_a_cap_at_any_level_is_blind_to_what_is_not_metered() -> None:
    experiment = Budget("experiment", Caps(usd=1.0))
    episode = Budget("episode", Caps(tokens=10), experiment)
    episode.unmetered("steps", "nobody counts them")
    with pytest.raises(Unmetered, match="the experiment's cap on usd cannot be enforced: no price"):
        episode.unmetered("usd", "no price")
    with pytest.raises(Unmetered, match="the episode's cap on tokens"):
        episode.unmetered("tokens", "no counts")
    assert experiment.used == Amounts()


def test_a_later_session_keeps_what_an_earlier_one_was_given() -> None:
    first, second = Metering(prices=OWN[:1]), Metering(prices=OWN[1:], allow_unmetered=True)
    assert second.over(first) == Metering(prices=(*OWN[1:], *OWN[:1]), allow_unmetered=True)
    assert Metering().over(Metering()).prices is None
    assert msgspec.convert(msgspec.to_builtins(second), Metering) == second
