"""Roots of one function: near a start where the slope is roughly known, and where that leads astray."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ethogram.statistics._numeric import normal_hazard, root_near


@given(at=st.floats(-9, 9), start=st.floats(-9, 9), slope=st.floats(0.01, 100))
def test_a_root_is_found_from_any_start_with_any_slope(at: float, start: float, slope: float) -> None:
    found = root_near(lambda x: np.sinh(x) - np.sinh(at), lambda _: slope, start, -10, 10)
    assert found == pytest.approx(at, abs=1e-6)


def test_a_good_start_needs_few_calls() -> None:
    calls = []

    def increasing(x: float) -> float:
        calls.append(x)
        return float(np.exp(x) - 2)

    assert root_near(increasing, np.exp, 0.6, -10, 10) == pytest.approx(np.log(2), abs=1e-9)
    assert len(calls) <= 6


def test_a_function_that_never_passes_zero_gives_an_end() -> None:
    assert root_near(lambda x: x + 30, lambda _: 1.0, 0.0, -10, 10) == -10
    assert root_near(lambda x: x - 30, lambda _: 1.0, 0.0, -10, 10) == 10


def test_the_hazard_is_the_slope_of_the_tail() -> None:
    from scipy import stats as reference

    for z in (-3.0, 0.0, 2.5, 20.0):
        assert normal_hazard(z) == pytest.approx(np.exp(reference.norm.logpdf(z) - reference.norm.logsf(z)))
