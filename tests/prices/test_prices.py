"""Prices: the dated table against genai-prices itself, own prices before it, and reasons instead of zeros."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path

import pytest
from genai_prices import Usage, calc_price
from hypothesis import given, settings
from hypothesis import strategies as st

from ethogram.errors import BadInput, BadUsage, NotFound, Unreadable
from ethogram.prices.prices import (
    PER,
    OwnPrice,
    PriceList,
    Quote,
    Rates,
    listed_price,
    own_rates,
    parse_price,
    read_prices,
)

WHEN = datetime(2026, 1, 15, 12, tzinfo=UTC)


def quoted(found: Quote | str) -> Quote:
    assert isinstance(found, Quote), found
    return found


def bill(quote: Quote, fresh: int, cached: int, written: int, output: int) -> float:
    rates = quote.rates
    for start, dearer in quote.tiers:
        if fresh + cached + written > start:
            rates = dearer
    tokens = fresh * rates.fresh + cached * rates.cached + written * rates.cache_write + output * rates.output
    return tokens / PER + rates.per_call


@given(
    st.sampled_from(
        [
            ("gpt-4o", "openai"),
            ("claude-sonnet-4-5", "anthropic"),
            ("gemini-2.5-pro", "google"),
            ("claude-opus-4-6", None),
            ("o3-mini", None),
            ("sonar", "perplexity"),
        ]
    ),
    st.tuples(*[st.integers(0, 400_000)] * 3, st.integers(0, 50_000)),
    st.datetimes(datetime(2024, 1, 1), datetime(2026, 6, 1)),
)
@settings(deadline=None, max_examples=60, derandomize=True)
def test_rates_come_to_what_the_table_itself_would_bill(model, tokens, when):
    fresh, cached, written, output = tokens
    usage = Usage(
        input_tokens=fresh + cached + written,
        cache_read_tokens=cached,
        cache_write_tokens=written,
        output_tokens=output,
    )
    when = when.replace(tzinfo=UTC)
    theirs = calc_price(usage, model[0], provider_id=model[1], genai_request_timestamp=when).total_price
    assert bill(quoted(listed_price(*model, when)), *tokens) == pytest.approx(float(theirs), rel=1e-9, abs=1e-12)


def test_prices_have_dates():
    """o3 became cheaper on a day in June 2025."""
    before, after = (quoted(listed_price("o3", "openai", datetime(2025, m, 1, tzinfo=UTC))) for m in (6, 7))
    assert before.rates.fresh == 10.0
    assert after.rates.fresh == 2.0


def test_prices_may_change_within_a_day():
    night, day = (
        quoted(listed_price("deepseek-chat", "deepseek", datetime(2025, 3, 1, h, tzinfo=UTC))) for h in (20, 10)
    )
    assert night.hourly
    assert night.rates.fresh < day.rates.fresh


@pytest.mark.parametrize(
    ("model", "provider", "matched"),
    [
        ("anthropic/claude-3-7-sonnet-latest", None, "anthropic/claude-3-7-sonnet-latest"),
        ("openai/gpt-4o", None, "openai/gpt-4o"),
        ("gemini-2.0-flash", "gcp.vertex.agent", "google/gemini-2.0-flash"),
        ("gpt-4o-2024-08-06", None, "openai/gpt-4o"),
    ],
)
def test_names_as_logs_write_them_are_understood(model, provider, matched):
    assert quoted(listed_price(model, provider, WHEN)).matched == matched


def test_an_unknown_model_has_a_reason_and_no_price():
    prices = PriceList()
    assert prices.quote("model-a", None, WHEN) == "the model is not in the price table"
    # a model of the same name somewhere else is another price
    assert prices.quote("llama3.1", "ollama", WHEN) == "the model of provider 'ollama' is not in the price table"
    assert prices.quote(None, None, WHEN) == "the log does not name the model"
    assert PriceList(table=False).quote("gpt-4o", None, WHEN) == "the model is not in the price list"


def test_own_prices_go_before_the_table_and_names_before_patterns():
    own = [parse_price("gpt-*=1/2"), parse_price("gpt-4o=3/4/0.5/5")]
    found = quoted(PriceList(own).quote("gpt-4o", "openai", WHEN))
    assert (found.source, found.matched) == ("own", "gpt-4o")
    assert found.rates == Rates(fresh=3, cached=0.5, cache_write=5, output=4, reasoning=4)
    assert quoted(PriceList(own).quote("gpt-5", None, WHEN)).rates.output == 2
    assert quoted(PriceList(own).quote("claude-sonnet-4-5", None, WHEN)).source == "priced"


def test_what_an_own_price_leaves_out_has_stated_defaults():
    assert own_rates(3.0, 15.0) == Rates(fresh=3, cached=pytest.approx(0.3), cache_write=3, output=15, reasoning=15)


def test_own_prices_end():
    prices = PriceList([OwnPrice(model="m", rates=own_rates(1, 2), first=date(2026, 1, 1), last=date(2026, 1, 15))])
    assert quoted(prices.quote("m", None, WHEN)).source == "own"
    assert prices.quote("m", None, datetime(2026, 1, 16, tzinfo=UTC)) == "your own price is not for 2026-01-16"


FILES = {
    "prices.toml": """
[[prices."house/model-a"]]
fresh = 2
output = 8
until = 2025-12-31
[[prices."house/model-a"]]
fresh = 1.5
cached = 0.1
cache_write = 2
output = 6
reasoning = 9
from = 2026-01-01
provider = "house"
""",
    "prices.yaml": """
house/model-a:
  - {fresh: 2, output: 8, until: 2025-12-31}
  - {fresh: 1.5, cached: 0.1, cache_write: 2, output: 6, reasoning: 9, from: 2026-01-01, provider: house}
""",
    "prices.json": """{"house/model-a": [{"fresh": 2, "output": 8, "until": "2025-12-31"}, {"fresh": 1.5, "cached": 0.1,
"cache_write": 2, "output": 6, "reasoning": 9, "from": "2026-01-01", "provider": "house"}]}""",
}


@pytest.mark.parametrize("name", FILES)
def test_price_files_say_the_same_in_three_languages(tmp_path: Path, name):
    path = tmp_path / name
    path.write_text(FILES[name])
    old, new = read_prices(path)
    assert (old.rates, old.last) == (own_rates(2, 8), date(2025, 12, 31))
    assert new.rates == Rates(fresh=1.5, cached=0.1, cache_write=2, output=6, reasoning=9)
    assert (new.first, new.provider) == (date(2026, 1, 1), "house")
    prices = PriceList([old, new])
    assert quoted(prices.quote("house/model-a", "house", WHEN)).rates.fresh == 1.5
    assert quoted(prices.quote("house/model-a", None, datetime(2025, 5, 5, tzinfo=UTC))).rates.fresh == 2


@pytest.mark.parametrize(
    ("text", "error", "words"),
    [
        ("m:\n  fresh: 1\n", BadInput, "lacks output"),
        ("m: {fresh: 1, output: -2}", BadInput, "output, is not a number of dollars"),
        ("m: {fresh: true, output: 2}", BadInput, "fresh, is not a number of dollars"),
        ("m: {fresh: .nan, output: 2}", BadInput, "fresh, is not a number of dollars"),
        ("m: {fresh: 1, output: 2, input: 3}", BadInput, "unknown key 'input'"),
        ("m: {fresh: 1, output: 2, from: soon}", BadInput, "not YYYY-MM-DD"),
        ("m: 3", BadInput, "not a table of rates"),
        ("", BadInput, "holds no prices"),
        ("m: [", Unreadable, "not valid yaml"),
    ],
)
def test_a_bad_price_file_is_named(tmp_path: Path, text, error, words):
    path = tmp_path / "prices.yaml"
    path.write_text(text)
    with pytest.raises(error, match=words):
        read_prices(path)


def test_a_price_file_that_is_not_there(tmp_path: Path):
    with pytest.raises(NotFound, match="no price file"):
        read_prices(tmp_path / "prices.toml")


@pytest.mark.parametrize("text", ["m", "m=3", "=3/4", "m=a/b", "m=1/2/3/4/5", "m=-1/2", "m=nan/2"])
def test_a_bad_price_flag_is_refused(text):
    with pytest.raises((BadUsage, BadInput), match="price"):
        parse_price(text)
