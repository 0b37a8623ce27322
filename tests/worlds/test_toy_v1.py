"""The toy world: the exact rates by enumeration, the seeds' recipe, and arrays that give what single episodes give."""

from __future__ import annotations

from hashlib import blake2b

import numpy as np
import pytest

from ethogram.errors import BadInput, NotFound
from ethogram.questions.explore.grid import grid
from ethogram.worlds._streams import Stream
from ethogram.worlds.named import known_world
from ethogram.worlds.toy_v1 import (
    NAMES,
    ToyEnv,
    ToySettings,
    ToyWorld,
    agent_seed,
    play,
    play_synthetic,
    read_hint,
    real_rate,
    synthetic_rate,
    v1_grid,
)

# by hand-independent enumeration: rows tool_noise, columns hint_ambiguity
REAL = {
    (0.0, 0): (0.0000, 0.3483, 0.5530, 0.6607),
    (0.0, 1): (0.1983, 0.4300, 0.5903, 0.6907),
    (0.0, 2): (0.3430, 0.5303, 0.6440, 0.7227),
    (0.0, 3): (0.4250, 0.6050, 0.6970, 0.7557),
    (0.05, 0): (0.0250, 0.3673, 0.5672, 0.6719),
    (0.05, 1): (0.2198, 0.4474, 0.6034, 0.7009),
    (0.1, 0): (0.0500, 0.3863, 0.5814, 0.6830),
    (0.1, 1): (0.2413, 0.4649, 0.6164, 0.7110),
    (0.2, 0): (0.1000, 0.4243, 0.6098, 0.7053),
    (0.2, 1): (0.2843, 0.4998, 0.6425, 0.7313),
}


@pytest.mark.parametrize(("place", "row"), REAL.items())
def test_real_rates_are_exact(place, row):
    flip, noise = place
    found = [real_rate(ToySettings(noise, flip, ambiguity, 4, 32)) for ambiguity in range(4)]
    assert np.round(found, 4).tolist() == pytest.approx(row, abs=1e-9)


def test_the_grid_has_1024_points_in_the_order_of_its_table():
    made = v1_grid()
    assert (len(made), made.names) == (1024, NAMES)
    assert made.settings(0) == dict(zip(NAMES, (0, 0.0, 0, 0, 16), strict=True))
    assert made.settings(1)["memory_tokens"] == 32
    assert made.settings(1023) == dict(zip(NAMES, (3, 0.2, 3, 6, 128), strict=True))


def test_shares_of_unsafe_points():
    made, real, synthetic = v1_grid(), ToyWorld(), ToyWorld(synthetic=True)
    rates = np.array([[w.rate(made.settings(i)) for i in range(1024)] for w in (real, synthetic)])
    assert (np.round(rates, 12) > 0.2).sum(axis=1).tolist() == [944, 994]
    assert len(np.unique(np.round(rates[0], 12))) <= 64
    assert (np.round(rates[1], 12) == 0.2).sum() == 3


def test_seeds_follow_the_recipe():
    data = b"agent:12345678901234567890"
    expected = int.from_bytes(blake2b(data, digest_size=8, person=b"AGENTSEED" + bytes(7)).digest(), "little")
    assert agent_seed(12345678901234567890) == expected


def test_the_environment_draws_in_its_order():
    rng, twin = np.random.default_rng(7), np.random.default_rng(7)
    env = ToyEnv(ToySettings(2, 0.1, 3, 2, 5), rng)
    target = int(twin.integers(0, 10))
    near = (target + int(twin.integers(-3, 4))) % 10
    tokens = [f"tok{int(twin.integers(0, 128)):03d}" for _ in range(2)]
    assert (env.target, env.hint) == (target, ["target", "is", "near", str(near), tokens[0]])
    assert env.lookup() == (target + int(twin.integers(-2, 3))) % 10
    assert env.verify(target) == (not twin.random() < 0.1)


def test_a_hint_without_its_number_reads_as_0():
    assert [
        read_hint(h.split()) for h in ("target is near 7 tok001", "target is near", "target is", "near tok001")
    ] == [7, 0, 0, 0]


def test_streams_are_numpys_own():
    any_ = np.random.default_rng(0).integers(0, 2**64, 60, dtype=np.uint64).tolist()
    seeds = [0, 1, 2**32 - 1, 2**32, 2**64 - 1, *any_]
    stream = Stream(np.array(seeds, dtype=np.uint64))
    for i, seed in enumerate(seeds):
        raw = np.random.default_rng(int(seed)).bit_generator.random_raw(7)
        assert [int(stream.word(k)[i]) for k in range(7)] == [int(x) for x in raw]
        draws = np.random.default_rng(int(seed))
        assert [int(draws.integers(0, 10)), int(draws.integers(-3, 4)) + 3] == [
            int(stream.below(0, 10)[0][i]),
            int(stream.below(1, 7)[0][i]),
        ]
        assert draws.random() == stream.uniform(1)[i]


def test_many_episodes_at_once_are_the_same_as_one_by_one():
    rng = np.random.default_rng(11)
    made = v1_grid()
    for point in [0, 1023, *rng.integers(0, 1024, 60).tolist()]:
        settings = made.settings(point)
        seeds = rng.integers(0, 2**64, 24, dtype=np.uint64).tolist()
        known = ToyWorld().settings(settings)
        assert ToyWorld().episodes(settings, seeds).tolist() == [play(known, s) for s in seeds]
        assert ToyWorld(synthetic=True).episodes(settings, seeds).tolist() == [play_synthetic(known, s) for s in seeds]


def test_a_hint_that_is_cut_off_is_played_the_same_way():
    settings = {"tool_noise": 2, "verify_flip": 0.1, "hint_ambiguity": 1, "distractor_count": 3, "memory_tokens": 3}
    seeds = list(range(200))
    known = ToyWorld().settings(settings)
    assert ToyWorld().episodes(settings, seeds).tolist() == [play(known, s) for s in seeds]


def test_rejected_draws_are_played_one_by_one(monkeypatch):
    """A rejection comes once in a billion draws, so every draw is said to be one: the result must not change."""
    settings = {"tool_noise": 1, "verify_flip": 0.2, "hint_ambiguity": 2, "distractor_count": 1, "memory_tokens": 16}
    seeds = list(range(50))
    before = ToyWorld().episodes(settings, seeds).tolist()
    plain = Stream.below
    monkeypatch.setattr(
        Stream, "below", lambda self, k, bound: (plain(self, k, bound)[0] * 0, np.ones(len(seeds), dtype=bool))
    )
    assert ToyWorld().episodes(settings, seeds).tolist() == before


@pytest.mark.parametrize("point", [0, 300, 700])
def test_frequencies_are_the_stated_rates(point):
    settings = v1_grid().settings(point)
    for world in (ToyWorld(), ToyWorld(synthetic=True)):
        seeds = np.random.default_rng(point).integers(0, 2**64, 20_000, dtype=np.uint64).tolist()
        failed = 1 - world.episodes(settings, seeds).mean()
        rate = world.rate(settings)
        assert abs(failed - rate) < 5 * np.sqrt(max(rate * (1 - rate), 1e-9) / 20_000) + 1e-9


def test_synthetic_rates_are_clipped():
    assert synthetic_rate(ToySettings(3, 1.0, 3, 6, 16)) == 1.0


def test_worlds_that_cannot_be_set_so():
    with pytest.raises(BadInput, match="needs the parameters"):
        ToyWorld().check(grid({"noise": [1, 2]}))
    with pytest.raises(BadInput, match="cannot be set so"):
        ToyWorld().settings({"tool_noise": "much"})
    with pytest.raises(BadInput, match="at least 0"):
        ToyWorld().settings(dict(zip(NAMES, (-1, 0.0, 0, 0, 16), strict=True)))
    with pytest.raises(NotFound, match="no world named"):
        known_world("toy_v2")
