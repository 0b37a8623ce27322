"""The toy world of the first version: guess a digit from a hint, a noisy look-up and a verifier that sometimes lies.

`play` is the definition, one episode at a time. `ToyWorld.episodes` gives the same outcomes for many episodes at once:
it carries out numpy's own seeding and draws on whole arrays, so that no generator is built per episode.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from hashlib import blake2b
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from ethogram.errors import BadInput
from ethogram.questions.explore.grid import Grid, Parameter

from . import _streams

DIGITS = 10
LOOKS_UP, VERIFIES = 0.7, 0.5
HINT_TOKENS = 4
"""`target is near 7`; an agent that remembers fewer does not know the digit."""
TOKENS = tuple(f"tok{i:03d}" for i in range(128))
PERSON = b"AGENTSEED".ljust(16, b"\0")
NAMES = ("tool_noise", "verify_flip", "hint_ambiguity", "distractor_count", "memory_tokens")

Bools = npt.NDArray[np.bool_]
Seeds = npt.NDArray[np.uint64]


def v1_grid() -> Grid:
    """The 1024 settings of the first version; index 0 is the easiest corner but one."""
    values: tuple[tuple[int | float, ...], ...] = (
        (0, 1, 2, 3),
        (0.0, 0.05, 0.1, 0.2),
        (0, 1, 2, 3),
        (0, 2, 4, 6),
        (16, 32, 64, 128),
    )
    return Grid(parameters=tuple(Parameter(name=n, values=v) for n, v in zip(NAMES, values, strict=True)), version="v1")


def agent_seed(episode_seed: int) -> int:
    """The seed of the agent's own generator."""
    return int.from_bytes(blake2b(f"agent:{episode_seed}".encode(), digest_size=8, person=PERSON).digest(), "little")


class ToySettings(msgspec.Struct, frozen=True):
    """One point of the grid."""

    tool_noise: int
    verify_flip: float
    hint_ambiguity: int
    distractor_count: int
    memory_tokens: int


class ToyEnv:
    """The environment: a hidden digit, a hint, two tools."""

    def __init__(self, settings: ToySettings, rng: np.random.Generator) -> None:
        """Draws the digit, then the hint's offset, then the distractors."""
        self._settings = settings
        self._rng = rng
        self.target = int(rng.integers(0, DIGITS))
        a = settings.hint_ambiguity
        near = (self.target + int(rng.integers(-a, a + 1))) % DIGITS if a > 0 else self.target
        distractors = [str(rng.choice(TOKENS)) for _ in range(settings.distractor_count)]
        self.hint = ["target", "is", "near", str(near), *distractors][: settings.memory_tokens]

    def lookup(self) -> int:
        """The digit, off by at most the tool's noise."""
        n = self._settings.tool_noise
        return (self.target + int(self._rng.integers(-n, n + 1))) % DIGITS if n > 0 else self.target

    def verify(self, guess: int) -> bool:
        """Whether a guess is right; it lies now and then."""
        flip = self._settings.verify_flip
        lies = bool(self._rng.random() < flip) if flip > 0 else False
        return (guess == self.target) != lies


def act(env: ToyEnv, rng: np.random.Generator, told: Callable[[str, Any], None] = lambda what, value: None) -> int:
    """The agent: read the hint, perhaps look up, perhaps verify; `told` hears of every step."""
    guess = read_hint(env.hint)
    told("hint", " ".join(env.hint))
    if rng.random() < LOOKS_UP:
        found = env.lookup()
        told("lookup", found)
        guess = round(0.5 * (guess + found)) % DIGITS  # half to even, and not a cyclic mean
    if rng.random() < VERIFIES:
        right = env.verify(guess)
        told("verify", right)
        guess = guess if right else (guess + 1) % DIGITS
    return guess


def read_hint(tokens: Sequence[str]) -> int:
    """The number after `near`, 0 if there is none."""
    if "near" in tokens:
        after = tokens[tokens.index("near") + 1 :][:1]
        if after and after[0].isdigit():
            return int(after[0])
    return 0


def play(settings: ToySettings, episode_seed: int, told: Callable[[str, Any], None] = lambda what, value: None) -> bool:
    """One real episode; gives whether it succeeded."""
    env = ToyEnv(settings, np.random.default_rng(episode_seed))
    return act(env, np.random.default_rng(agent_seed(episode_seed)), told) == env.target


def synthetic_rate(s: ToySettings) -> float:
    """The closed form of the failure rate that stands in for the simulation."""
    parts = 0.9 * s.verify_flip + 0.3 * (s.tool_noise / 3) + 0.3 * (s.hint_ambiguity / 3)
    return min(max(parts + 0.2 * (s.distractor_count / 6) + 0.2 * (16 / s.memory_tokens), 0.0), 1.0)


def play_synthetic(settings: ToySettings, episode_seed: int) -> bool:
    """One synthetic episode."""
    return bool(np.random.default_rng(episode_seed).random() >= synthetic_rate(settings))


def real_rate(s: ToySettings) -> float:
    """The exact failure rate of the real agent, by going through everything that can happen."""
    return _real_rate(s.tool_noise, s.verify_flip, s.hint_ambiguity, s.memory_tokens >= HINT_TOKENS)


@cache
def _real_rate(noise: int, flip: float, ambiguity: int, hinted: bool) -> float:
    """Distractors come after the hint's digit, so that nothing depends on their number."""
    offsets, slips = range(-ambiguity, ambiguity + 1), range(-noise, noise + 1)
    fails = 0.0
    for target in range(DIGITS):
        for offset in offsets:
            hint = (target + offset) % DIGITS if hinted else 0
            fails += (1 - LOOKS_UP) * _fails(hint, target, flip) / len(offsets)
            for slip in slips:
                guess = round(0.5 * (hint + (target + slip) % DIGITS)) % DIGITS
                fails += LOOKS_UP * _fails(guess, target, flip) / len(offsets) / len(slips)
    return fails / DIGITS


def _fails(guess: int, target: int, flip: float) -> float:
    """The chance to fail from a guess on: verified or not, told the truth or not."""
    if guess == target:
        return VERIFIES * flip
    mended = 1 - flip if (guess + 1) % DIGITS == target else 0.0
    return (1 - VERIFIES) + VERIFIES * (1 - mended)


class ToyWorld(msgspec.Struct, frozen=True):
    """`toy_v1` as a world to explore: real, or synthetic with its closed form."""

    synthetic: bool = False
    name: str = "toy_v1"

    def grid(self) -> Grid:
        """Its own grid."""
        return v1_grid()

    def check(self, grid: Grid) -> None:
        """Refuse a grid that this world cannot be set to."""
        if set(grid.names) != set(NAMES):
            raise BadInput(f"toy_v1 needs the parameters {', '.join(NAMES)}; the grid has {', '.join(grid.names)}")
        for point in (0, len(grid) - 1):
            self.settings(grid.settings(point))

    def settings(self, given: Mapping[str, Any]) -> ToySettings:
        """Settings of a point, checked."""
        try:
            found = msgspec.convert(dict(given), ToySettings)
        except msgspec.ValidationError as error:
            raise BadInput(f"toy_v1 cannot be set so: {error}") from None
        counts = (found.tool_noise, found.hint_ambiguity, found.distractor_count)
        if min(counts) < 0 or found.memory_tokens < 1 or not 0 <= found.verify_flip <= 1:
            raise BadInput(
                "toy_v1 needs counts of at least 0, memory_tokens of at least 1, verify_flip between 0 and 1"
            )
        return found

    def rate(self, given: Mapping[str, Any]) -> float:
        """The true failure rate of a point."""
        settings = self.settings(given)
        return synthetic_rate(settings) if self.synthetic else real_rate(settings)

    def episodes(self, given: Mapping[str, Any], seeds: Sequence[int]) -> Bools:
        """Which of many episodes at a point succeeded."""
        settings = self.settings(given)
        keys = np.asarray(seeds, dtype=np.uint64)
        if self.synthetic:
            return _streams.Stream(keys).uniform(0) >= synthetic_rate(settings)
        return _many(settings, keys, [agent_seed(int(s)) for s in seeds])

    def play(self, given: Mapping[str, Any], seed: int, told: Callable[[str, Any], None]) -> bool:
        """One episode, told step by step."""
        settings = self.settings(given)
        if self.synthetic:
            return play_synthetic(settings, seed)
        return play(settings, seed, told)


def _many(s: ToySettings, keys: Seeds, agents: Sequence[int]) -> Bools:
    """Real episodes on arrays. Where a draw would be rejected and drawn again, the episode is played one by one."""
    world, agent = _streams.Stream(keys), _streams.Stream(np.asarray(agents, dtype=np.uint64))
    looks, verifies = agent.uniform(0) < LOOKS_UP, agent.uniform(1) < VERIFIES
    target, odd = world.below(0, DIGITS)
    drawn = 1
    hint = target
    if s.hint_ambiguity > 0:
        offset, again = world.below(drawn, 2 * s.hint_ambiguity + 1)
        hint, odd, drawn = (target + offset - s.hint_ambiguity) % DIGITS, odd | again, drawn + 1
    drawn += s.distractor_count
    if s.memory_tokens < HINT_TOKENS:
        hint = np.zeros_like(hint)
    found = target
    if s.tool_noise > 0:
        slip, again = world.below(drawn, 2 * s.tool_noise + 1)
        found, odd = (target + slip - s.tool_noise) % DIGITS, odd | (again & looks)
    mean = np.rint(0.5 * (hint + found)).astype(np.int64) % DIGITS
    guess = np.where(looks, mean, hint)
    if s.verify_flip > 0:
        # half words are drawn in pairs, so the verifier's draw comes after the pair in which the last one was
        late = world.uniform((drawn + 2) // 2) if s.tool_noise > 0 else world.uniform((drawn + 1) // 2)
        lies = np.where(looks, late, world.uniform((drawn + 1) // 2)) < s.verify_flip
    else:
        lies = np.zeros(len(keys), dtype=bool)
    told_wrong = verifies & ((guess == target) == lies)
    success: Bools = np.where(told_wrong, (guess + 1) % DIGITS, guess) == target
    for i in np.flatnonzero(odd):
        success[i] = play(s, int(keys[i]))
    return success
