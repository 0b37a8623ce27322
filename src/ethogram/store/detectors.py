"""What a secret looks like: one table of detectors, and the checks that tell a secret from its lookalikes.

A detector's pattern is tried only where one of its anchors stands, so text without anchors costs almost nothing.
Patterns read a `View`: the text as ASCII bytes of the same length, where earlier marks are blanked with NUL.
No pattern may match NUL, so no match ever crosses a mark; and where a token must end, NUL counts as a letter, so that
a mark never sets free what stands right beside it.
"""

from __future__ import annotations

import base64
import binascii
import codecs
import json
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator
from functools import lru_cache
from math import log2
from typing import Literal

import msgspec

Span = tuple[int, int]
Family = Literal["secret", "personal"]
Sweep = Literal["run", "raw", "word", "shape"]
Check = Callable[["View", "re.Match[bytes]", int, int], Span | None]

_LETTERS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_DIGITS = b"0123456789"
_NAME = _LETTERS + _DIGITS + b"_-"
_HEX = _DIGITS + b"abcdef"
PLAIN = _HEX + b"-:.TZ+/="
_RUN = 20  # no provider's token is shorter
_LONG_RUN = b"w" * _RUN
_TAIL = re.compile(rb"[-_.](?<=([A-Za-z0-9]{2}[-_.]))")
_ESCAPE = re.compile(rb"%[0-9A-Fa-f]{2}|\\(?:u[0-9A-Fa-f]{4}|x[0-9A-Fa-f]{2})")
# Digits with separators between them; plain dates, by far the most frequent, are left out at once.
_CLUSTER = re.compile(rb"0(?<!00)(?!000-00-00[a,])[0 \-./()]{6,}")
# Typographic spaces and hyphens that models and web pages put into numbers; one character each, so offsets hold.
_FOLDED = dict(zip("\u00a0\u202f\u2009\u2010\u2011\u2012\u2013\u2018\u2019\u201c\u201d", b"   ----''\"\"", strict=True))
# Letters and digits in other clothes: full-width, mathematical, circled.
_ORNATE = "\uff01-\uff5e\U0001d400-\U0001d7ff\u2460-\u24ff\u2070-\u209c\u2100-\u214e\U0001f130-\U0001f189"
_WIDTHLESS = "\u00ad\u034f\u061c\u180e\u200b-\u200f\u2060-\u2064\ufeff"
_ODD = re.compile("[" + "".join(_FOLDED) + _ORNATE + _WIDTHLESS + "]")
_UNSEEN = re.compile("[" + _WIDTHLESS + "]")
_ESCAPED = re.compile(rb"\\[nrt]")
_UNESCAPED = {rb"\n": b"\r\n", rb"\r": b"\r\r", rb"\t": b"\t\t"}
UNSEEN = b"\x01"
"""Stands for a character that takes no room."""


@lru_cache(maxsize=2048)
def _plain(odd: str) -> int:
    """The ASCII character that an odd one stands for; itself as `?` where there is none."""
    if odd in _FOLDED:
        return _FOLDED[odd]
    if _UNSEEN.match(odd):
        return UNSEEN[0]
    plain = unicodedata.normalize("NFKC", odd)
    return ord(plain) if len(plain) == 1 and plain.isascii() else ord("?")


def _classes(groups: dict[bytes, bytes], other: bytes) -> bytes:
    table = bytearray(other * 256)
    for members, becomes in groups.items():
        for byte in members:
            table[byte] = becomes[0]
    return bytes(table)


_TOKEN_CLASS = _classes({_NAME + b".:/=~%+": b"w"}, b" ")
_SHAPE_CLASS = _classes({_DIGITS: b"0", _LETTERS + b"_\0": b"a"} | {bytes([c]): bytes([c]) for c in b" -./()+#"}, b",")


class View:
    """One text, seen in the ways that detectors read it; `raw`, `low` and `shape` have the text's own offsets."""

    __slots__ = ("classes", "low", "raw", "runs", "shape", "tails")

    def __init__(self, raw: bytes) -> None:
        """Each view is one pass in C; what it saves is a pass for each detector."""
        self.raw = raw
        self.low = raw.lower()
        self.classes = classes = raw.translate(_TOKEN_CLASS)
        # The long runs alone, each once: the only places where a provider's token can be. Order does not matter,
        # and runs without any letter beyond f, such as hashes, ids and times, have no prefix to find.
        runs = set(_long_runs(raw, classes))
        self.runs = b"\n".join([run for run in runs if run.strip(PLAIN)])
        # The last letters before each separator in those runs: most prefixes end so, and one look finds them all.
        self.tails = set(_TAIL.findall(self.runs))
        self.shape = raw.translate(_SHAPE_CLASS)

    def before(self, pos: int, size: int) -> bytes:
        """Up to `size` lower-case bytes left of `pos`, never looking past a mark."""
        return self.low[max(0, pos - size) : pos].rpartition(b"\0")[2]


def _long_runs(raw: bytes, classes: bytes) -> Iterator[bytes]:
    """Runs of a token's characters; a search for one character many times leaps over short ones."""
    end = 0
    while (start := classes.find(_LONG_RUN, end)) >= 0:
        end = classes.find(b" ", start)
        end = len(classes) if end < 0 else end
        yield raw[start:end]


def _folded(error: UnicodeError) -> tuple[str, int]:
    """What stands for a stretch of characters beyond ASCII, one for each."""
    assert isinstance(error, UnicodeEncodeError)
    odd = error.object[error.start : error.end]
    if _ODD.search(odd) is None:
        return "?" * len(odd), error.end
    return "".join([chr(_plain(each)) if _ODD.match(each) else "?" for each in odd]), error.end


# So the encoder itself finds the characters that need a look, and the rest of a text costs nothing.
codecs.register_error("ethogram.folded", _folded)


def as_bytes(text: str) -> bytes:
    """The text as one ASCII byte per character, wide and ornate letters plain; an escaped line break is a real one."""
    raw = text.encode("ascii", "ethogram.folded")
    return _ESCAPED.sub(_unescaped, raw) if b"\\" in raw else raw


def _unescaped(match: re.Match[bytes]) -> bytes:
    return _UNESCAPED[match[0]]


class Detector(msgspec.Struct, frozen=True):
    """One row of the table; `grow` widens a match to the left over some bytes, from `least` to `most` of them."""

    kind: str
    family: Family
    sweep: Sweep
    anchors: tuple[bytes, ...]
    regex: re.Pattern[bytes]
    group: int | str = 0
    check: Check | None = None
    grow: tuple[bytes, int, int] | None = None

    def tails(self) -> dict[bytes, bytes]:
        """Each anchor with its first two letters and separator, or with nothing if it has none."""
        found = ((anchor, _TAIL.search(anchor)) for anchor in self.anchors)
        return {anchor: tail[1] if tail else b"" for anchor, tail in found}

    def take(self, view: View, match: re.Match[bytes]) -> Span | None:
        """The span of the secret itself, or nothing if this is a lookalike."""
        start, end = match.span(self.group)
        if self.grow is not None:
            members, least, most = self.grow
            left = view.raw[max(0, start - most) : start]
            grown = len(left) - len(left.rstrip(members))
            if grown < least:
                return None
            # The digits of an escape just before, as in %22, are not part of the secret.
            escape = _ESCAPE.match(view.raw, max(0, start - grown - 1))
            start = escape.end() if escape and start - escape.end() >= least else start - grown
        return (start, end) if self.check is None else self.check(view, match, start, end)


# -- checks -----------------------------------------------------------------------------------------------------------

# Possessive throughout: a long random value must not be tried in every possible way.
_WORDS = re.compile(rb"(?:(?:[A-Z][a-z]++|[a-z]{2,}+|[A-Z]{2,}+){0,6}+[A-Za-z]?\d{0,4}+(?:[^A-Za-z0-9]++|$))*+")
_TEMPLATE = re.compile(
    rb"\$\{|\$\(|[$&!@][a-z_]+;?$|\{[{a-z_]|<[\w/]|@[\w-]+[.:/]|%[(sd]|%\w+%$|"
    rb"\[(?:redacted|hidden|removed|filtered|masked)|\.{1,2}/|~/|https?:|"
    rb"(?:arn|vault|op|env|file|secrets?|projects|os|self|process|config|args|var)[.:/]|"
    rb".*(?:\*{3}|\(\?|\[a-|x{5}|\.\.\.|\bredacted\b|your[_-]|[_-]here\b|placeholder|changeme|://)|"
    rb"(?:none|null|true|false)\b"
)
_IDENTIFIER = re.compile(rb"[A-Za-z_][\w.]*")
_STEM_IN_NAME = re.compile(rb"(?:Pass|Secret|Token|Key|Cred|Auth)|(?:^|[_.])(?:pass|secret|token|key|cred|auth)")
_PAGING = (b"next", b"page", b"continuation", b"cursor", b"resume", b"sync", b"public", b"publishable")
_KEY_OWNERS = (b"api", b"access", b"secret", b"private", b"encryption", b"signing", b"master", b"auth", b"account",
               b"subscription", b"storage", b"sharedaccess", b"shared_access", b"ssh", b"webhook", b"deploy", b"admin",
               b"client", b"app", b"application", b"functions", b"service", b"license", b"hmac", b"aes", b"consumer",
               b"openai", b"anthropic", b"cohere", b"mistral", b"azure", b"gemini", b"google")  # fmt: skip


def entropy(value: bytes) -> float:
    """Bits per character, by the characters' own frequencies."""
    size = len(value)
    return -sum(n / size * log2(n / size) for n in Counter(value).values())


def _readable(value: bytes) -> bool:
    """Words, perhaps with small numbers behind them: a name rather than a random string."""
    return _WORDS.fullmatch(value) is not None


def _kinds_of_characters(value: bytes) -> tuple[int, bool, bool, bool]:
    digits = len(value) - len(value.translate(None, _DIGITS))
    symbol = bool(value.translate(None, _NAME + b"./: "))
    return digits, value.upper() != value, value.lower() != value, symbol


def looks_random(value: bytes) -> bool:
    """Long and mixed enough to be a machine-made token, and not made of words."""
    digits, lower, upper, _ = _kinds_of_characters(value)
    if len(value) < 10 or _readable(value):
        return False
    if digits and (lower or upper):
        return (digits > 1 or len(value) >= 16) and entropy(value) >= 2.6
    return lower and upper and len(value) >= 20 and entropy(value) >= 3.8


def looks_chosen(value: bytes) -> bool:
    """Plausible as a password that somebody chose: mixed characters, or a machine-made one."""
    digits, lower, upper, symbol = _kinds_of_characters(value)
    if lower or upper:
        return bool(digits) or (symbol and len(value) >= 8) or looks_random(value)
    return digits == len(value)


def _name_before(view: View, pos: int) -> bytes:
    left = view.before(pos, 40)
    return left[len(left.rstrip(_NAME + b".")) :]


def _assigned(view: View, match: re.Match[bytes], start: int, end: int) -> Span | None:
    """A value given to a sensitive name: not a template, a path, a word or a piece of code."""
    name, quoted = _name_before(view, match.start()), match["q"] is not None
    stem = match["stem"]
    if not quoted:
        end = start + len(view.raw[start:end].rstrip(b".,:;"))
    value = view.raw[start:end]
    if len(value) < 6 or (value[:1] in b":/" and _readable(value)) or (not quoted and value[:1] in b"$%*"):
        return None
    if _TEMPLATE.match(value.lower()) or (not quoted and view.raw[end : end + 1] in (b"(", b"[")):
        return None
    left = view.before(match.start() - len(name), 64)
    if match["gap"].isspace() and not (name.startswith(b"--") or left.endswith(b"env ") or b"login " in left):
        return None  # words apart mean an assignment only on a command line, in a Dockerfile or in a .netrc
    if left.endswith(b":") and (left[-2:-1].isalnum() or left.endswith(b"::")):
        return None  # a part of a longer name, as in arn:aws:secretsmanager:eu:1:secret:name
    if not quoted and _IDENTIFIER.fullmatch(value) and (_STEM_IN_NAME.search(value) or value.isalpha()):
        return None  # a piece of code, not a literal
    if stem.startswith((b"pass", b"pwd")):
        # The short word also ends others, as in bypass, and counts what passed.
        whole = stem != b"pass" or not ((name[-1:].isalpha() and view.raw[match.start()] > 96) or value.isdigit())
        return (start, end) if whole and looks_chosen(value) else None
    if match["scheme"] and not value.isalpha() and len(value) >= 8:
        return start, end
    if stem.startswith(b"key") and not view.before(match.start(), 16).rstrip(b"_- ").endswith(_KEY_OWNERS):
        return None
    if name.rstrip(b"_-").endswith(_PAGING) or not looks_random(value):
        return None
    return start, end


def is_mixed(body: bytes) -> bool:
    """Whether there is a digit, or both cases: what a random string has and a word has not."""
    digits, lower, upper, _ = _kinds_of_characters(body)
    return bool(digits or (lower and upper)) and not _readable(body)


def _mixed(view: View, match: re.Match[bytes], start: int, end: int) -> Span | None:
    return (start, end) if is_mixed(view.raw[start:end]) else None


def _aws_id(view: View, match: re.Match[bytes], start: int, end: int) -> Span | None:
    body = view.raw[start:end]
    return (start, end) if body.startswith(b"AKIA") or _kinds_of_characters(body[4:])[0] else None


def _openai(view: View, match: re.Match[bytes], start: int, end: int) -> Span | None:
    return max(start, view.raw.find(b"sk-", start, end)), end


def _decoded(part: bytes) -> bytes:
    try:
        return base64.urlsafe_b64decode(part + b"=" * (-len(part) % 4))
    except (binascii.Error, ValueError):
        return b""


def _jwt(view: View, match: re.Match[bytes], start: int, end: int) -> Span | None:
    try:
        header = json.loads(_decoded(match[1]))
    except (ValueError, RecursionError):
        return None
    return (start, end) if match[2] and isinstance(header, dict) and "alg" in header else None


def _discord(view: View, match: re.Match[bytes], start: int, end: int) -> Span | None:
    return (start, end) if _decoded(match[1]).isdigit() else None


def _url_password(view: View, match: re.Match[bytes], start: int, end: int) -> Span | None:
    value = view.raw[start:end]
    return None if value[:1] in b"${<*" or set(value) <= set(b"xX*.") else (start, end)


_NOT_TOP_LEVEL = frozenset((b"png jpg jpeg gif svg webp ico js ts tsx jsx mjs css html json yml yaml xml txt toml lock "
                            b"local localdomain internal lan localhost").split())  # fmt: skip
_EMAIL_LEFT = _LETTERS + _DIGITS + b"._%+-"


def _email(view: View, match: re.Match[bytes], start: int, end: int) -> Span | None:
    """Not a package version, an image density, a remote's address, a login in a URL or a product of matrices."""
    at, domain = match.start(), view.low[match.start(1) : end]
    local = view.raw[start:at]
    # Percent codes other than an escaped plus sign end the address on the left.
    start += max((m.end() for m in re.finditer(rb"%(?!2[Bb])[0-9A-Fa-f]{2}|^[.%-]+", local)), default=0)
    labels = domain.split(b".")
    top = labels[-1]
    if start >= at or not top.isalpha() or len(top) < 2 or top in _NOT_TOP_LEVEL or b"" in labels:
        return None
    if re.match(rb"v?\d+\.\d|\d+x\.|(?:self|cls|this|np|torch)\.", domain) or view.raw[end : end + 1] in (b"(", b"["):
        return None
    if view.low[start:at] in (b"git", b"hg", b"svn") or re.search(
        rb"(?::|%3a)(?://|%2f%2f)[^\s\"'<>@]*$", view.before(start, 128)
    ):
        return None
    return start, end


def _digits(view: View, start: int, end: int) -> bytes:
    return view.raw[start:end].translate(None, b" -./()+")


def luhn(digits: bytes) -> bool:
    """The check digit of payment cards."""
    total = 0
    for place, byte in enumerate(reversed(digits)):
        value = (byte - 48) * (1 + place % 2)
        total += value - 9 if value > 9 else value
    return total % 10 == 0


_CARD = re.compile(
    rb"4(?:\d{12}|\d{15}|\d{18})|5[1-5]\d{14}|2(?:22[1-9]|2[3-9]\d|[3-6]\d\d|7[01]\d|720)\d{12}|3[47]\d{13}|"
    rb"3(?:0[0-5]|[689]\d)\d{11}|6(?:011|4[4-9]\d|5\d\d)\d{12,15}|35(?:2[89]|[3-8]\d)\d{12,15}|62\d{14,17}|"
    rb"(?:5018|5019|5020|5038|5893|6304|6759|676[1-3])\d{8,15}"
)


def _card(view: View, match: re.Match[bytes], start: int, end: int) -> Span | None:
    digits = _digits(view, start, end)
    if not _CARD.fullmatch(digits) or not luhn(digits) or len(set(digits)) < 2:
        return None
    # Thirteen bare digits are far more often a barcode than one of the last short Visa numbers.
    if len(digits) == 13 and sum((b - 48) * (1 + 2 * (i % 2)) for i, b in enumerate(digits)) % 10 == 0:
        return None
    return start, end


def _ssn(view: View, match: re.Match[bytes], start: int, end: int) -> Span | None:
    fits = re.fullmatch(rb"(?!000|666|9)\d{3}(?!00)\d\d(?!0000)\d{4}", _digits(view, start, end))
    return (start, end) if fits else None


def _north_american(view: View, match: re.Match[bytes], start: int, end: int) -> Span | None:
    fits = re.fullmatch(rb"1?[2-9](?!11)\d\d[2-9](?!11)\d{6}", _digits(view, start, end))
    return (start, end) if fits else None


_COUNTRY = re.compile(
    rb"7|2[07]|21[1-368]|2[2-6]\d|29[0-13-9]|3[0-469]|3[578]\d|4[013-9]|42\d|5[1-8]|5[09]\d|6[0-6]|6[789]\d|8[1246]|8[058]\d|9[0-58]|9[679]\d"
)


def _international(view: View, match: re.Match[bytes], start: int, end: int) -> Span | None:
    return (start, end) if _COUNTRY.match(_digits(view, start, end)) else None


def _trunk(view: View, match: re.Match[bytes], start: int, end: int) -> Span | None:
    digits = _digits(view, start, end)
    return (start, end) if 9 <= len(digits) <= 11 and digits[0] == 48 and digits[1] != 48 else None


_IBAN_SIZES = {size: frozenset(codes.split()) for size, codes in {
    15: b"NO", 16: b"BE", 18: b"DK FI FO GL NL SD FK", 19: b"MK SI", 20: b"AT BA EE KZ LT LU MN XK",
    21: b"CH HR LI LV", 22: b"BG BH CR DE GB GE IE ME RS VA", 23: b"AE GI IL IQ OM SO TL",
    24: b"AD CZ ES MD PK RO SA SE SK TN VG", 25: b"LY PT ST", 26: b"IS TR", 27: b"BI DJ FR GR IT MC MR SM",
    28: b"AL AZ BY CY DO GT HU LB NI PL SV", 29: b"BR EG PS QA UA", 30: b"JO KW MU YE", 31: b"MT SC", 32: b"LC",
    33: b"RU"}.items()}  # fmt: skip
_IBAN_SIZE = {code: size for size, codes in _IBAN_SIZES.items() for code in codes}
_IBAN_VALUE = {ord(c): str(int(c, 36)) for c in "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"}
_IBAN_HEAD = re.compile(rb"(?<![A-Za-z0-9\0])[A-Z]{2}\d{2}")
_IBAN = re.compile(rb"[A-Z]{2}\d{2}(?:[ -]?[A-Z0-9]){11,29}")


def iban_at(view: View, pos: int) -> Span | None:
    """An account number around the cluster of digits at `pos`, cut to its country's length and checked."""
    if view.shape[pos - 1 : pos] != b"a" and view.shape[pos - 2 : pos] not in (b"a ", b"0 "):
        return None
    for head in _IBAN_HEAD.finditer(view.raw, max(0, pos - 14), pos + 2):
        match = _IBAN.match(view.raw, head.start())
        size = _IBAN_SIZE.get(head[0][:2], 0)
        compact = match[0].translate(None, b" -")[:size] if match else b""
        if not size or len(compact) < size:
            continue
        if int("".join(map(_IBAN_VALUE.__getitem__, compact[4:] + compact[:4]))) % 97 != 1:
            continue
        end = head.start() + size
        while len(view.raw[head.start() : end].translate(None, b" -")) < size:
            end += 1
        if view.shape[end : end + 1] not in (b"0", b"a"):
            return head.start(), end
    return None


# -- numbers that only their label gives away --------------------------------------------------------------------------

_GAP = b" \t\"'`\\:=#(>+."
_NUMBER_WORDS = (b"number", b"numbers", b"num", b"no", b"nr", b"nbr", b"digits")
_PHONE_WORDS = (b"phone", b"telephone", b"tel", b"mobile", b"mob", b"cell", b"fax", b"whatsapp", b"sms", b"contact",
                b"call me", b"call us", b"reach me", b"text me", b"telefon", b"landline", b"msisdn")  # fmt: skip
_LABELS: tuple[tuple[str, tuple[bytes, ...], bool], ...] = (
    ("bank-routing", (b"routing", b"aba", b"rtn", b"routing transit", b"transit"), False),
    ("bank-account", (b"bank account", b"bank_account", b"bankaccount", b"bank acct"), False),
    ("bank-account", (b"account", b"acct", b"a/c", b"acc"), True),
    ("us-ssn", (b"ssn", b"social security", b"social_security", b"socialsecurity", b"tax id", b"tax_id"), False),
    ("phone", _PHONE_WORDS, False),
)
_LABELLED = re.compile(rb"[+(]{0,2}\d(?:[ ().\-/]{0,2}\d){6,16}(?![\w\0])")
_DATE_OR_IP = re.compile(
    rb"\(?(?:(?:19|20)\d\d([-/. ])[0-3]?\d\1[0-3]?\d(?!\d)|[0-3]?\d([-/.])[0-3]?\d\2(?:19|20)\d\d|"
    rb"\d{1,3}(?:\.\d{1,3}){3}(?!\d))"
)
_TAILS = frozenset(word[-2:] for _, words, _ in _LABELS for word in words) | {word[-2:] for word in _NUMBER_WORDS}
_NUMBER_TAIL = re.compile(rb"(?:[ _-](?:" + b"|".join(_NUMBER_WORDS) + rb")|number|(?<=[a-z]{2})no)$")


def labelled_at(view: View, pos: int) -> tuple[str, int, int] | None:
    """A number at `pos` that the words before it call a phone, an account, a routing or a social security number."""
    left = view.before(pos, 48)
    label = left.rstrip(_GAP)
    if label.endswith((b" is", b" at", b" on")):
        label = label[:-3]
    if label[-2:] not in _TAILS:
        return None
    named = _NUMBER_TAIL.search(label)
    owner = label[: named.start()].rstrip(b" _-") if named else label
    numbered = named is not None or b"#" in left[len(label) :]
    for kind, words, needs_number in _LABELS:
        if owner.endswith(words) and (numbered or not needs_number):
            word = max((w for w in words if owner.endswith(w)), key=len)
            # A short word may be the end of a longer one, as in hotel; a long one may end a name, as in userphone.
            if len(word) > 4 or not owner[: -len(word)][-1:].isalpha():
                return _labelled_span(view, kind, pos)
    return None


def _labelled_span(view: View, kind: str, pos: int) -> tuple[str, int, int] | None:
    start = pos - len(lead := view.raw[max(0, pos - 2) : pos]) + len(lead.rstrip(b"+("))
    match = _LABELLED.match(view.raw, start)
    if match is None or _DATE_OR_IP.match(match[0]):
        return None
    digits = _digits(view, start, match.end())
    fits = {
        "phone": 7 <= len(digits) <= 15,
        "us-ssn": len(digits) == 9 and _ssn(view, match, start, match.end()) is not None,
        "bank-routing": len(digits) == 9
        and sum(w * (b - 48) for w, b in zip((3, 7, 1) * 3, digits, strict=True)) % 10 == 0,
        "bank-account": len(digits) <= 17,
    }
    return (kind, start, match.end()) if fits[kind] else None


# -- the table --------------------------------------------------------------------------------------------------------

# A token may follow an escape, a percent code or a colour code directly; otherwise not a letter or a digit.
_EDGE = rb"(?:(?<![A-Za-z0-9\0])|(?<=%[0-9A-Fa-f]{2})|(?<=\\u00[0-9A-Fa-f]{2})|(?<=\\x[0-9A-Fa-f]{2})|(?<=[0-9]m))"
_ALNUM = rb"[A-Za-z0-9]"
_STRONG: tuple[tuple[str, str, bytes], ...] = (
    ("anthropic-key", "sk-ant-", rb"[\w-]{16,}"),
    ("openrouter-key", "sk-or-", rb"(?:v1-)?\w{32,}"),
    ("langfuse-key", "sk-lf- pk-lf-", rb"[\w-]{20,}"),
    ("openai-key", "sk-proj- sk-svcacct- sk-admin- sk-None-", rb"[\w-]{20,}"),
    ("google-key", "AIza", rb"[\w-]{35}"),
    ("google-key", "GOCSPX-", rb"[\w-]{20,}"),
    ("google-key", "ya29.", rb"[\w.-]{20,}"),
    ("github-token", "ghp_ gho_ ghu_ ghs_ ghr_", rb"\w{30,}"),
    ("github-token", "github_pat_", rb"\w{22,}"),
    ("gitlab-token", "glpat- gldt- glft- glsoat- glrt- glrtr- glcbt- glptt- glagent- gloas- glimt- glffct- GR1348941",
     rb"[\w.-]{20,}"),
    ("slack-token", "xoxa- xoxb- xoxc- xoxd- xoxe- xoxo- xoxp- xoxr- xoxs-", rb"(?:[\w-]|%2[BbFf]|%3[Dd]){10,}"),
    ("slack-token", "xapp-", rb"\d-[\w-]{20,}"),
    ("stripe-key", "sk_live_ sk_test_ rk_live_ rk_test_", _ALNUM + rb"{16,}"),
    ("stripe-key", "whsec_", _ALNUM + rb"{24,}(?:[+/][A-Za-z0-9+/]{8,})?={0,2}"),
    ("huggingface-token", "api_org_", _ALNUM + rb"{30,}"),
    ("langsmith-key", "lsv2_", rb"\w{30,}"),
    ("perplexity-key", "pplx-", _ALNUM + rb"{32,}"),
    ("pypi-token", "pypi-AgE", rb"[\w-]{40,}"),
    ("digitalocean-token", "dop_v1_ doo_v1_ dor_v1_", rb"[0-9a-f]{32,}"),
    ("shopify-token", "shpat_ shpca_ shppa_ shpss_ shptka_", rb"[0-9a-fA-F]{32}"),
    ("linear-key", "lin_api_ lin_oauth_", _ALNUM + rb"{30,}"),
    ("supabase-key", "sb_secret_", rb"[\w-]{20,}"),
    ("vercel-token", "vercel_blob_rw_", rb"\w{20,}"),
)  # fmt: skip
# Prefixes that other text might hold: what follows must look random; the last ones must also begin a word.
_WEAK: tuple[tuple[str, str, bytes], ...] = (
    ("huggingface-token", "hf_", _ALNUM + rb"{30,}"),
    ("groq-key", "gsk_", _ALNUM + rb"{40,}"),
    ("xai-key", "xai-", _ALNUM + rb"{40,}"),
    ("replicate-token", "r8_", _ALNUM + rb"{32,}"),
    ("npm-token", "npm_", _ALNUM + rb"{36,}"),
    ("sendgrid-key", "SG.", rb"[\w-]{16,32}\.[\w-]{32,64}"),
    ("databricks-token", "dapi", rb"[0-9a-f]{32}(?:-\d)?(?![A-Za-z0-9\0])"),
    ("newrelic-key", "NRAK- NRII- NRJS- NRIQ- NRRA- NRAA-", rb"[A-Za-z0-9-]{18,}"),
    ("notion-key", "ntn_", _ALNUM + rb"{40,}"),
    ("notion-key", "secret_", _ALNUM + rb"{43}(?![\w\0])"),
    ("supabase-key", "sbp_", rb"(?:v0_)?[0-9a-f]{40}"),
    ("vercel-token", "vcp_ vci_ vca_ vcr_ vck_", _ALNUM + rb"{24,}"),
    ("service-token", "nvapi- tgp_v1_ pcsk_ tvly- pylf_v1_ dckr_pat_ glsa_ glc_ sntrys_ sntryu_ hvs. hvb. hvr. dp.pt. "
     "dp.st. dp.ct. HRKU- ATATT3 ATCTT3 figd_ PMAK- pscale_tkn_ pscale_pw_ pscale_oauth_ rubygems_ sq0csp- sq0atp- "
     "AKCp AGE-SECRET-KEY-1 ops_eyJ xkeysib- sk.eyJ pat-na1- pat-eu1- bkua_ rzp_live_ CCIPAT_ wandb_v1_",
     rb"[\w.+-]{20,}={0,2}"),
)  # fmt: skip
_EDGED: tuple[tuple[str, str, bytes], ...] = (
    ("openai-key", "sk-", _ALNUM + rb"{20,}[\w-]*"),
    ("google-key", "1//0", rb"[\w-]{28,}"),
    ("langsmith-key", "ls__", rb"[0-9a-f]{32}"),
    ("mailgun-key", "key-", rb"(?<!-key-)[0-9a-f]{32}(?![A-Za-z0-9\0])"),
    ("service-token", "csk- fw_ e2b_ jina_ nfp_ sgp_ tfp_ napi_", _ALNUM + rb"{20,}"),
)


def _token_rows() -> tuple[Detector, ...]:
    rows = []
    for table, edge, check in ((_STRONG, b"", None), (_WEAK, b"", _mixed), (_EDGED, _EDGE, _mixed)):
        for kind, words, body in table:
            anchors = tuple(word.encode() for word in words.split())
            regex = re.compile(edge + b"(?:" + b"|".join(map(re.escape, anchors)) + b")" + body)
            rows.append(Detector(kind, "secret", "run", anchors, regex, check=check))
    return tuple(rows)


def _row(
    kind: str, anchors: str, regex: bytes, *, sweep: Sweep = "run", group: int | str = 0, check: Check | None = None,
    grow: tuple[bytes, int, int] | None = None, family: Family = "secret",
) -> Detector:  # fmt: skip
    return Detector(kind, family, sweep, tuple(anchors.encode().split()), re.compile(regex), group, check, grow)


# What stands between a sensitive name and its value, in headers, JSON, code, shells, YAML, XML, queries and prose.
_QUOTE = rb"\\{0,7}[\"'`]"
_BETWEEN = (
    rb"(?P<gap>(?:" + _QUOTE + rb"\]?)?(?: ?\[[^\]\s\0]{0,20}\])?[ \t]*"
    rb"(?:=>|:=|={1,2}|:(?:[ \t]*(?:optional\[)?(?:str|string|bytes|secretstr)\]?(?: \| none)?[ \t]*=)?|"
    rb"(?:%|\\u00)3[ad]|>)[ \t]*|"
    + _QUOTE + rb",[ \t]*(?:" + _QUOTE + rb"value" + _QUOTE + rb"[ \t]*:[ \t]*|(?=b?" + _QUOTE + rb"))|"
    rb"[ \t]+(?:(?:is|was)[ \t:]+)?)"
)  # fmt: skip
_VALUE = (
    rb"(?:[bfru@]{1,2}(?=[\"']))?(?P<q>" + _QUOTE + rb")?"
    rb"(?P<scheme>(?:bearer|basic|token|bot|apikey|api-key)(?:[ \t]+|%20|\+))?(?P<value>(?(q)"
    rb"(?:(?!(?P=q))(?:[^\s\"\\\0]|\\[^\s\0])){6,4000}|[^\s\"'`,;<>(){}\[\]\\\0&|=]{6,4000}={0,2}))"
)  # fmt: skip


def _assignment(kind: str, anchors: str, stem: bytes, check: Check = _assigned) -> Detector:
    return _row(kind, anchors, b"(?P<stem>" + stem + b")" + _BETWEEN + _VALUE, sweep="word", group="value", check=check)


_PEM_LINE = rb"(?:[\s\"'+,]|\\+[nr])*+[A-Za-z0-9+/=]{16,}+"
_LEFT, _RIGHT = rb"(?<![0a#])(?<![0a][-/])(?<!0\.)", rb"(?![0a])(?![-/][0a])(?!\.0)"

DETECTORS: tuple[Detector, ...] = (
    *_token_rows(),
    _row("openai-key", "T3BlbkFJ", rb"T3BlbkFJ[A-Za-z0-9]{16,}[\w-]*", grow=(_NAME, 16, 180), check=_openai),
    _row("aws-key-id", "AKIA ASIA ABIA ACCA A3T", rb"(?:AKIA|ASIA|ABIA|ACCA|A3T[A-Z0-9])[A-Z0-9]{16}", check=_aws_id),
    _row("aws-secret-key", "AKIA ASIA", rb"A[KS]IA[A-Z0-9]{16}[\"']?[\s,:;|]{1,4}[\"']?([A-Za-z0-9/+]{40})(?![\w/+\0])",
         group=1),
    _row("azure-key", "Q~", rb"Q~[\w.~-]{31,34}(?![\w~\0])", grow=(_NAME + b"~.", 4, 4)),
    _row("azure-key", "JQQJ99", rb"JQQJ99[A-Za-z0-9]{20,44}", grow=(_LETTERS + _DIGITS, 20, 60)),
    _row("azure-key", "sig=", rb"(?<=[?&;])sig=([\w%+/-]{40,}={0,2})", group=1),
    _row("slack-webhook", "hooks.slack.com/", rb"hooks\.slack\.com/(?:services|workflows|triggers)/([\w/-]{20,})",
         group=1),
    _row("discord-webhook", "/api/webhooks/", rb"/api/webhooks/\d{15,20}/([\w-]{40,})", group=1),
    _row("discord-token", "", rb"([MNO][\w-]{23,27})\.[\w-]{6}\.[\w-]{27,40}(?![\w\0-])", check=_discord),
    _row("telegram-token", ":AA", rb":AA[\w-]{32,34}(?![\w\0-])", grow=(_DIGITS, 8, 10)),
    _row("twilio-key", "", rb"(?:AC|SK)[0-9a-f]{32}(?![A-Za-z0-9\0])", check=_mixed),
    _row("mailchimp-key", "-us", rb"-us\d{1,2}(?![\w\0])", grow=(_HEX, 32, 32)),
    _row("newrelic-key", "NRAL", rb"NRAL(?![\w\0])", grow=(_HEX, 36, 36)),
    _row("private-key", "-----BEGIN", rb"-----BEGIN (?:[A-Z0-9]+ ){0,4}PRIVATE KEY(?: BLOCK)?-----"
         rb"(?:(?:[^-\0]|-(?!----))*+-----END [A-Z0-9 ]{0,40}-----|(?:" + _PEM_LINE + rb")*+)", sweep="raw"),
    # The parts behind the first are optional here and demanded by the check, so that a long lookalike is read once.
    _row("jwt", "eyJ", rb"(eyJ[\w-]{8,})(\.[\w-]{4,}(?:\.[\w-]*){1,3})?", check=_jwt),
    _row("url-password", "://", rb"://[^\s:/@\"'<>\\\0]{0,64}:([^\s@/\"'<>\\\0]{1,256})@[\w.\[{$-]", sweep="raw",
         group=1, check=_url_password),
    _row("url-password", "%3a%2f%2f", rb"%3a%2f%2f[\w.+-]{0,64}+%3a((?:[\w.!$*+~-]|%(?!3a|2f)){1,128})%40\w",
         sweep="word", group=1),
    *(_assignment("authorization", stem, stem.encode()) for stem in ("authorization", "_auth")),
    _row("authorization", "bearer", rb"(?P<stem>bearer)(?P<gap>[ \t]+|%20|\+)" + _VALUE, sweep="word", group="value",
         check=lambda view, match, start, end: (start, end) if looks_random(view.raw[start:end]) else None),
    # Of what a response sets the first value alone, since the attributes behind it tell nothing; else all that is sent.
    _row("cookie", "cookie", rb"cookie(?<=set.cookie)" + _BETWEEN + rb"(?:" + _QUOTE + rb")?[\w.$-]{1,64}="
         rb"(?P<value>[^\s\"'\\\0;]{6,4000})", sweep="word", group="value"),
    _row("cookie", "cookie", rb"cookie(?<!set.cookie)" + _BETWEEN + rb"(?:" + _QUOTE + rb")?"
         rb"(?P<value>[\w.$-]{1,64}=[^\r\n\"'\\\0]{6,4000}(?<!\s))", sweep="word", group="value"),
    _assignment("password", "pass", rb"pass(?:word|wd|phrase|code|wort)?\d{0,2}"),
    _assignment("password", "pwd", rb"pwd"),
    _assignment("secret", "secret", rb"secret(?:[_ -]?(?:access[_ -]?)?key|[_-]?(?:token|value|string))?\d{0,2}"),
    _assignment("token", "token", rb"token(?:[_-]?(?:value|secret|string))?\d{0,2}"),
    _assignment("api-key", "key", rb"key(?:[_-]?value)?\d{0,2}"),
    *(_row("email", at, at.encode() + rb"([A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63}){1,6})", sweep="raw", check=_email,
           grow=(_EMAIL_LEFT, 1, 64), family="personal") for at in ("@", "%40")),
    *(_row(kind, "", _LEFT + shape + _RIGHT, sweep="shape", check=check, family="personal") for kind, shape, check in (
        ("card-number", rb"0{13,19}", _card),
        ("card-number", rb"0000(?P<s>[ -])0000(?P=s)0000(?P=s)0000(?:(?P=s)000)?", _card),
        ("card-number", rb"0000(?P<s>[ -])000000(?P=s)00000?", _card),
        ("us-ssn", rb"000-00-0000", _ssn),
        ("phone", rb"(?:\(000\)[ .-]?000[ .-]|000-000-|000\.000\.)0000", _north_american),
        ("phone", rb"0(?:[ .-]?\(000\)[ .-]?000[ .-]|-000-000-|\.000\.000\.| 000 000 )0000", _north_american),
        ("phone", rb"\+0(?:[ ().-]{0,2}0){10}", _north_american),
        ("phone", rb"(?<!0 )000 000 0000(?! 0)", _north_american),
        ("phone", rb"\+0(?:[ ().-]{0,2}0){7,14}", _international),
        ("phone", rb"(?<!0 )(?:\(00{1,4}\)[ /-]?|00{1,4}[ -]|00{2,4}/)0{3,8}(?:[ -]0{3,4})?(?! 0)", _trunk),
        ("phone", rb"(?<!0 )00(?P<s>[ .-])00(?:(?P=s)00){3}(?! 0)", _trunk),
    )),
)  # fmt: skip
# Found from clusters of digits by `iban_at` and `labelled_at`; last in the table's order.
NUMBER_KINDS = ("iban", "us-ssn", "bank-routing", "bank-account", "phone")
# A more telling kind for a value whose name holds one of these words.
_TELLING = (
    ("aws-secret-key", (b"aws", b"secretaccesskey", b"secret_access_key", b"secret access key")),
    ("azure-key", (b"azure", b"accountkey", b"sharedaccesskey", b"ocp-apim")),
    ("cohere-key", (b"cohere", b"co_api_key")),
    ("mistral-key", (b"mistral",)),
)
_RENAMED = ("secret", "token", "api-key")
SECRET_KINDS: tuple[str, ...] = tuple(
    dict.fromkeys([row.kind for row in DETECTORS if row.family == "secret"] + [kind for kind, _ in _TELLING])
)
PERSONAL_KINDS: tuple[str, ...] = tuple(
    dict.fromkeys([row.kind for row in DETECTORS if row.family == "personal"] + list(NUMBER_KINDS))
)


def telling_kind(kind: str, view: View, match: re.Match[bytes]) -> str:
    """The kind, made more precise by the name that the value was given to."""
    if kind in _RENAMED:
        left = view.before(match.start("gap"), 48)
        name = left[len(left.rstrip(_NAME + b". ")) :]
        for telling, words in _TELLING:
            if any(word in name for word in words):
                return telling
    return kind


_SHAPES = tuple((order, row) for order, row in enumerate(DETECTORS) if row.sweep == "shape")


def _shape_hits(shape: bytes) -> tuple[Span, ...]:
    return tuple((order, m.start()) for order, row in _SHAPES for m in row.regex.finditer(shape))


_remembered_hits = lru_cache(maxsize=4096)(_shape_hits)


def clusters(view: View) -> Iterator[tuple[int, int, tuple[Span, ...]]]:
    """Where digits cluster, and which rows their shape fits; the same few shapes recur, so they are remembered."""
    for match in _CLUSTER.finditer(view.shape):
        start, end = match.span()
        base = max(0, start - 3)
        shape = view.shape[base : end + 2]
        yield start, base, _remembered_hits(shape) if end - base < 64 else _shape_hits(shape)
