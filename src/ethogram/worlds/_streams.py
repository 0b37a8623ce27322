"""numpy's `default_rng(seed)` for many seeds at once: SeedSequence and PCG64 (O'Neill 2014) on arrays, bit for bit.

Only what the toy worlds need: the k-th 64-bit word of each stream as a uniform number, and the k-th half word as an
integer below a bound (Lemire 2019). numpy promises that these streams do not change.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Words = npt.NDArray[np.uint64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

MULTIPLIER = 0x2360ED051FC65DA44385DF649FCCF645
MASK128 = (1 << 128) - 1
LOW = np.uint64(0xFFFFFFFF)
HALF = np.uint64(32)


class Stream:
    """Streams of 64-bit words, one per seed."""

    def __init__(self, seeds: Words) -> None:
        """Seeds are 64-bit integers."""
        state, increment = _seeded(seeds)
        self._state, self._increment = state, increment
        self._words: dict[int, Words] = {}

    def word(self, k: int) -> Words:
        """The k-th word of every stream."""
        if k not in self._words:
            self._words[k] = _output(_advanced(self._state, self._increment, k + 1))
        return self._words[k]

    def uniform(self, k: int) -> npt.NDArray[np.float64]:
        """The k-th word as a number in [0, 1), as `Generator.random` makes it."""
        return (self.word(k) >> np.uint64(11)).astype(np.float64) * 2.0**-53

    def below(self, k: int, bound: int) -> tuple[Ints, Bools]:
        """The k-th half word as an integer in [0, bound), and where numpy would have drawn again."""
        word = self.word(k // 2)
        half = (word >> HALF) if k % 2 else (word & LOW)
        wide = half * np.uint64(bound)
        rejected = (wide & LOW) < np.uint64((2**32 - bound) % bound)
        return (wide >> HALF).astype(np.int64), rejected


def _product(a: Words, b: Words) -> tuple[Words, Words]:
    """The full product of 64-bit words: high and low."""
    a0, a1, b0, b1 = a & LOW, a >> HALF, b & LOW, b >> HALF
    low, mid, other = a0 * b0, a1 * b0, a0 * b1
    carried = (low >> HALF) + (mid & LOW) + (other & LOW)
    return a1 * b1 + (mid >> HALF) + (other >> HALF) + (carried >> HALF), (carried << HALF) | (low & LOW)


Wide = tuple[Any, Any]
"""A 128-bit number: high and low word."""


def _times(a: Wide, constant: int) -> Wide:
    """A 128-bit product with a constant."""
    high, low = np.uint64(constant >> 64), np.uint64(constant & (2**64 - 1))
    top, bottom = _product(a[1], np.broadcast_to(low, a[1].shape))
    return top + a[0] * low + a[1] * high, bottom


def _plus(a: Wide, b: Wide) -> Wide:
    low = a[1] + b[1]
    return a[0] + b[0] + (low < a[1]).astype(np.uint64), low


def _advanced(state: Wide, increment: Wide, steps: int) -> Wide:
    """The state after some steps: m^k s + (m^k - 1) / (m - 1) c."""
    power, total = 1, 0
    for _ in range(steps):
        power, total = power * MULTIPLIER & MASK128, (total * MULTIPLIER + 1) & MASK128
    return _plus(_times(state, power), _times(increment, total))


def _output(state: Wide) -> Words:
    """XSL-RR: fold the state, rotate by its top bits."""
    folded = state[0] ^ state[1]
    turn = state[0] >> np.uint64(58)
    return np.asarray((folded >> turn) | (folded << ((np.uint64(64) - turn) & np.uint64(63))), dtype=np.uint64)


def _seeded(seeds: Words) -> tuple[Wide, Wide]:
    """State and increment of PCG64 from SeedSequence(seed)."""
    words = _entropy_words(seeds)
    first, second, third, fourth = (words[2 * i] | (words[2 * i + 1] << HALF) for i in range(4))
    increment = ((third << np.uint64(1)) | (fourth >> np.uint64(63)), (fourth << np.uint64(1)) | np.uint64(1))
    state = _plus(increment, (first, second))
    return _plus(_times(state, MULTIPLIER), increment), increment


def _hashed(value: Words, constant: int, multiplier: int) -> tuple[Words, int]:
    value = value ^ np.uint64(constant)
    constant = constant * multiplier & 0xFFFFFFFF
    value = (value * np.uint64(constant)) & LOW
    return value ^ (value >> np.uint64(16)), constant


def _mixed(x: Words, y: Words) -> Words:
    result = (x * np.uint64(0xCA01F9DD) - y * np.uint64(0x4973F715)) & LOW
    return result ^ (result >> np.uint64(16))


def _entropy_words(seeds: Words) -> list[Words]:
    """The eight 32-bit words that SeedSequence gives to PCG64; a small seed is one word of entropy, padded with 0."""
    constant = 0x43B0D7E5
    pool = []
    for word in (seeds & LOW, seeds >> HALF, np.zeros_like(seeds), np.zeros_like(seeds)):
        hashed, constant = _hashed(word, constant, 0x931E8875)
        pool.append(hashed)
    for source in range(4):
        for target in range(4):
            if source != target:
                hashed, constant = _hashed(pool[source], constant, 0x931E8875)
                pool[target] = _mixed(pool[target], hashed)
    constant, words = 0x8B51F9DD, []
    for i in range(8):
        hashed, constant = _hashed(pool[i % 4], constant, 0x58F38DED)
        words.append(hashed)
    return words
