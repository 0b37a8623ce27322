"""Small damages to words, shared by operators."""

from __future__ import annotations

import random
import string
from collections.abc import Collection

LOOKALIKES = {
    "0": "O", "1": "l", "2": "Z", "5": "S", "6": "b", "8": "B", "9": "g", "O": "0", "o": "0", "l": "1", "I": "l",
    "i": "l", "S": "5", "s": "5", "B": "8", "b": "6", "Z": "2", "z": "2", "g": "9", "q": "9", "G": "6", "e": "c",
    "c": "e", "a": "o", "u": "v", "v": "u", "n": "h", "h": "n", "t": "f", "f": "t", "m": "rn", "w": "vv", "d": "cl",
    "E": "F", "D": "O", "T": "I", ",": ".", ".": ",",
}  # fmt: skip
"""What a scanner takes for what."""

NEIGHBOURS = {
    "q": "wa", "w": "qes", "e": "wrd", "r": "etf", "t": "ryg", "y": "tuh", "u": "yij", "i": "uok", "o": "ipl",
    "p": "ol", "a": "qsz", "s": "awdx", "d": "sefc", "f": "drgv", "g": "fthb", "h": "gyjn", "j": "hukm", "k": "jil",
    "l": "ko", "z": "asx", "x": "zsdc", "c": "xdfv", "v": "cfgb", "b": "vghn", "n": "bhjm", "m": "njk",
}  # fmt: skip
"""Keys beside each other on a keyboard."""


def typo(word: str, rng: random.Random) -> str:
    """A word with one slip of the fingers: a neighbouring key, a letter lost, doubled or swapped."""
    letters = [i for i, c in enumerate(word) if c.isalpha()]
    if not letters:
        return word
    at = rng.choice(letters)
    ways = ["double"]
    if word[at].lower() in NEIGHBOURS:
        ways.append("neighbour")
    if len(letters) > 2:
        ways.append("drop")
    if at + 1 < len(word) and word[at + 1].isalpha() and word[at] != word[at + 1]:
        ways.append("swap")
    way = rng.choice(ways)
    if way == "neighbour":
        new = rng.choice(NEIGHBOURS[word[at].lower()])
        return word[:at] + (new.upper() if word[at].isupper() else new) + word[at + 1 :]
    if way == "drop":
        return word[:at] + word[at + 1 :]
    if way == "swap":
        return word[:at] + word[at + 1] + word[at] + word[at + 2 :]
    return word[:at] + word[at] + word[at:]


def corrupted(label: str, rng: random.Random, taken: Collection[str] = ()) -> str:
    """A label that is no longer the same, and no other one that is in use either."""
    new = label
    for _ in range(8):
        new = typo(new, rng)
        if new != label and new not in taken:
            return new
    while new == label or new in taken:
        new += rng.choice(string.ascii_lowercase)
    return new


def other_digit(digit: str, rng: random.Random, allowed: str = string.digits) -> str:
    """Another digit than this one."""
    return rng.choice([d for d in allowed if d != digit])


def digit_changed(number: str, rng: random.Random) -> str:
    """A number with one digit changed; it keeps its length and gains no leading zero."""
    places = [i for i, c in enumerate(number) if "0" <= c <= "9"]
    at = rng.choice(places[:15])  # what comes later is beyond the precision of a number
    allowed = string.digits if at != places[0] or len(places) == 1 else "123456789"
    return number[:at] + other_digit(number[at], rng, allowed) + number[at + 1 :]
