"""Planted secrets in disguise, and what is left of them; and ordinary text that looks a little like it.

`USUAL` are the nine disguises that people and programs put secrets into; the detectors were developed on them.
`OTHER` are the same nine done in other ways, on other seeds: nobody looked at them while the detectors were written.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import random
import re
import unicodedata
import uuid
from collections.abc import Callable, Mapping
from urllib.parse import quote, unquote

Rng = random.Random
Disguise = Callable[[Rng, str], str]
EACH = 30
PIECE = 14
"""A secret survives if this number of its characters can be read in a row."""


def _base64(rng: Rng, secret: str) -> str:
    return f"token in the header: {base64.b64encode(secret.encode()).decode()}"


def _wrapped(rng: Rng, secret: str) -> str:
    at = rng.randrange(len(secret) // 3, 2 * len(secret) // 3)
    return f"the key is\n{secret[:at]}\n{secret[at:]}\nand that is all"


def _spaced(rng: Rng, secret: str) -> str:
    return f"spell it: {' '.join(secret)} , done"


def _full_width(rng: Rng, secret: str) -> str:
    return "use " + "".join(chr(ord(c) + 0xFEE0) if "!" <= c <= "~" else c for c in secret) + " here"


def _zero_width(rng: Rng, secret: str) -> str:
    for _ in range(3):
        at = rng.randrange(2, len(secret) - 2)
        secret = secret[:at] + "\u200b" + secret[at:]
    return f"copied from a page: {secret} (thanks)"


def _escaped(rng: Rng, secret: str) -> str:
    return '{"said": "it was ' + re.sub(r"[^A-Za-z0-9]", lambda m: f"\\u{ord(m[0]):04x}", secret) + '"}'


def _url_encoded(rng: Rng, secret: str) -> str:
    return "next=" + re.sub(r"[^A-Za-z0-9]", lambda m: f"%{ord(m[0]):02X}", secret) + "&page=2"


def _parameter(rng: Rng, secret: str) -> str:
    return f"GET https://api.example.org/v1/items?limit=10&api_key={quote(secret, safe='')}&sort=asc HTTP/1.1"


def _shell(rng: Rng, secret: str) -> str:
    return f"$ env | sort | head -3\nHOME=/root\nSERVICE_API_KEY={secret}\nPWD=/srv\n$ exit"


USUAL: dict[str, Disguise] = {
    "base64": _base64, "wrapped": _wrapped, "spaced": _spaced, "full-width": _full_width, "zero-width": _zero_width,
    "escaped": _escaped, "url-encoded": _url_encoded, "url parameter": _parameter, "shell output": _shell,
}  # fmt: skip


def _base64_of_words(rng: Rng, secret: str) -> str:
    words = json.dumps({"user": "ann", "note": f"the key is {secret}, keep it", "n": rng.randrange(99)})
    return json.dumps({"payload": base64.urlsafe_b64encode(words.encode()).decode().rstrip("=")})


def _wrapped_in_code(rng: Rng, secret: str) -> str:
    third = len(secret) // 3
    parts = [secret[:third], secret[third : 2 * third], secret[2 * third :]]
    between = rng.choice(["\n    ", " \\\n  ", '"\n        "', "\r\n", "\\n"])
    return f'KEY = ("{between.join(parts)}")'


def _spaced_wide(rng: Rng, secret: str) -> str:
    return "letters: " + rng.choice(["\u00a0", "  ", "\t", ","]).join(secret)


def _monospace(rng: Rng, secret: str) -> str:
    def ornate(c: str) -> str:
        if "a" <= c <= "z":
            return chr(0x1D68A + ord(c) - 97)
        if "A" <= c <= "Z":
            return chr(0x1D670 + ord(c) - 65)
        return chr(0x1D7F6 + int(c)) if c.isdigit() else c

    return "posted as " + "".join(map(ornate, secret))


def _joiners(rng: Rng, secret: str) -> str:
    return "text: " + rng.choice(["\u2060", "\ufeff", "\u00ad"]).join(secret) + " end"


def _all_escaped(rng: Rng, secret: str) -> str:
    form = rng.choice(["\\x{:02x}", "&#{};", "&#x{:x};", "\\u{:04X}"])
    return "value " + "".join(form.format(ord(c)) for c in secret)


def _twice_encoded(rng: Rng, secret: str) -> str:
    sign = rng.choice(["%", "%25"])
    return "redirect=" + "".join(f"{sign}{ord(c):02x}" for c in secret)


def _fragment(rng: Rng, secret: str) -> str:
    name = rng.choice(["access_token", "key", "auth_token", "token"])
    return f"https://app.example.org/cb#state=xyz&{name}={quote(secret, safe='')}"


def _traced(rng: Rng, secret: str) -> str:
    forms = ["+ export API_TOKEN='{}'", 'curl -H "X-Api-Key: {}" https://example.org', 'declare -x SECRET_KEY="{}"']
    return "+ set -x\n" + rng.choice(forms).format(secret) + "\n+ true"


OTHER: dict[str, Disguise] = {
    "base64": _base64_of_words, "wrapped": _wrapped_in_code, "spaced": _spaced_wide, "full-width": _monospace,
    "zero-width": _joiners, "escaped": _all_escaped, "url-encoded": _twice_encoded, "url parameter": _fragment,
    "shell output": _traced,
}  # fmt: skip


def planted(
    makers: Mapping[str, Callable[[Rng], str]], disguises: Mapping[str, Disguise], seed: int
) -> list[tuple[str, str, str, str]]:
    """Name of the disguise, kind, secret, and the text that holds it: thirty of each disguise, over all kinds."""
    rng = random.Random(seed)
    kinds = sorted(makers)
    rng.shuffle(kinds)
    found, number = [], 0
    for name, disguise in disguises.items():
        for _ in range(EACH):
            kind = kinds[number % len(kinds)]
            secret = makers[kind](rng)
            found.append((name, kind, secret, disguise(rng, secret)))
            number += 1
    return found


def survives(secret: str, stored: str) -> bool:
    """Whether a long piece of a secret can still be read in a text, by someone who undoes every disguise."""
    bare = re.sub(r"\s", "", secret)
    pieces = {bare[i : i + PIECE] for i in range(max(1, len(bare) - PIECE + 1))}
    return any(piece in reading for reading in _undone(stored) for piece in pieces)


def _undone(text: str) -> list[str]:
    plain = unicodedata.normalize("NFKC", re.sub("[\u00ad\u200b\u2060\ufeff]", "", text))
    plain = html.unescape(unquote(unquote(plain)))
    plain = re.sub(r"\\(?:u00|x)([0-9a-fA-F]{2})", lambda m: chr(int(m[1], 16)), plain)
    tight = re.sub(r'\\n|[\s"\\,]', "", plain)
    said = []
    for run in re.findall(r"[A-Za-z0-9+/_-]{16,}", text):
        for skip in range(4):
            part = run[skip : skip + (len(run) - skip) // 4 * 4].replace("-", "+").replace("_", "/")
            said.append(base64.b64decode(part).decode("latin-1"))
    return [plain, tight, *said]


def ordinary(seed: int) -> list[str]:
    """Text without any secret that has something of a disguise: images, hashes, dumps, escapes, wrapped lines."""
    rng = random.Random(seed)
    found = []
    for _ in range(20):
        found += [
            "data:image/png;base64," + base64.b64encode(rng.randbytes(6000)).decode(),
            base64.encodebytes(rng.randbytes(2000)).decode(),
            "\n".join(f"{hashlib.sha256(rng.randbytes(9)).hexdigest()}  part{n}.bin" for n in range(40)),
            "\n".join(str(uuid.UUID(bytes=rng.randbytes(16))) for _ in range(40)),
            json.dumps([{"id": rng.getrandbits(60), "sum": rng.randbytes(20).hex(), "no": n} for n in range(40)]),
            "\n".join(" ".join(f"{b:02x}" for b in rng.randbytes(16)) for _ in range(30)),
            "\n".join(" ".join(rng.choice("abcdefxyz01") for _ in range(40)) for _ in range(20)),
            "&".join(f"p{n}={quote(rng.choice(['a b/c', 'x=y', 'https://example.org']), safe='')}" for n in range(9)),
            json.dumps("caf\u00e9 na\u00efve \u4e2d\u6587 <b>it's</b>" * 20),
            base64.b64encode(b"the quick brown fox jumps over the lazy dog, and so on and so forth " * 20).decode(),
            "\n".join("sha512-" + base64.b64encode(rng.randbytes(64)).decode() for _ in range(10)),
        ]  # fmt: skip
    return found
