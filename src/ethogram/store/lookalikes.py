"""Checks that distinguish a secret from lookalikes: each takes a match and gives the span of the secret, or None."""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections import Counter
from math import log2

from .text_view import DIGITS, LETTERS, NAME, TextRange, View

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
BARE = rb"[^\s\"'`,;<>(){}\[\]\\\0&|=]"
# An ampersand inside a value, not one that ends it: before the next field of a query, in an entity, between commands.
AMPERSAND = rb"&(?![\w.%\[\]-]{1,64}+=|#?\w{1,8}+;)" + BARE + rb"{1,400}+"
_REST = re.compile(rb"(?:" + AMPERSAND + rb"){1,9}+")
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
    digits = len(value) - len(value.translate(None, DIGITS))
    symbol = bool(value.translate(None, NAME + b"./: "))
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
    return left[len(left.rstrip(NAME + b".")) :]


def assigned_value(view: View, match: re.Match[bytes], start: int, end: int) -> TextRange | None:
    """A value given to a sensitive name: not a template, a path, a word or a piece of code."""
    name, quoted = _name_before(view, match.start()), match["q"] is not None
    stem = match["stem"]
    if not quoted:
        rest = _REST.match(view.raw, end)
        end = rest.end() if rest else end
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


def mixed_token(view: View, match: re.Match[bytes], start: int, end: int) -> TextRange | None:
    """A token of a provider: mixed characters, no words."""
    return (start, end) if is_mixed(view.raw[start:end]) else None


def aws_key_id(view: View, match: re.Match[bytes], start: int, end: int) -> TextRange | None:
    """The id of an AWS key; those of temporary ones have a digit."""
    body = view.raw[start:end]
    return (start, end) if body.startswith(b"AKIA") or _kinds_of_characters(body[4:])[0] else None


def openai_key(view: View, match: re.Match[bytes], start: int, end: int) -> TextRange | None:
    """OpenAI's key, from its prefix on where that stands before the mark in its middle."""
    return max(start, view.raw.find(b"sk-", start, end)), end


def _decoded(part: bytes) -> bytes:
    try:
        return base64.urlsafe_b64decode(part + b"=" * (-len(part) % 4))
    except (binascii.Error, ValueError):
        return b""


def json_web_token(view: View, match: re.Match[bytes], start: int, end: int) -> TextRange | None:
    """Three parts whose header decodes as JSON and names its algorithm."""
    try:
        header = json.loads(_decoded(match[1]))
    except (ValueError, RecursionError):
        return None
    return (start, end) if match[2] and isinstance(header, dict) and "alg" in header else None


def discord_token(view: View, match: re.Match[bytes], start: int, end: int) -> TextRange | None:
    """A token whose first part decodes to the number of its bot."""
    return (start, end) if _decoded(match[1]).isdigit() else None


def url_password(view: View, match: re.Match[bytes], start: int, end: int) -> TextRange | None:
    """The password of an address, unless it is a template or blacked out."""
    value = view.raw[start:end]
    return None if value[:1] in b"${<*" or set(value) <= set(b"xX*.") else (start, end)


_NOT_TOP_LEVEL = frozenset((b"png jpg jpeg gif svg webp ico js ts tsx jsx mjs css html json yml yaml xml txt toml lock "
                            b"local localdomain internal lan localhost").split())  # fmt: skip
EMAIL_LEFT = LETTERS + DIGITS + b"._%+-"


def email_address(view: View, match: re.Match[bytes], start: int, end: int) -> TextRange | None:
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


def card_number(view: View, match: re.Match[bytes], start: int, end: int) -> TextRange | None:
    """A number whose length and first digits a card has, and whose check digit fits."""
    digits = _digits(view, start, end)
    if not _CARD.fullmatch(digits) or not luhn(digits) or len(set(digits)) < 2:
        return None
    # Thirteen bare digits are far more often a barcode than one of the last short Visa numbers.
    if len(digits) == 13 and sum((b - 48) * (1 + 2 * (i % 2)) for i, b in enumerate(digits)) % 10 == 0:
        return None
    return start, end


def social_security(view: View, match: re.Match[bytes], start: int, end: int) -> TextRange | None:
    """A number that the United States could have issued."""
    fits = re.fullmatch(rb"(?!000|666|9)\d{3}(?!00)\d\d(?!0000)\d{4}", _digits(view, start, end))
    return (start, end) if fits else None


def north_american_phone(view: View, match: re.Match[bytes], start: int, end: int) -> TextRange | None:
    """A number with an area code and an exchange that exist."""
    fits = re.fullmatch(rb"1?[2-9](?!11)\d\d[2-9](?!11)\d{6}", _digits(view, start, end))
    return (start, end) if fits else None


_COUNTRY = re.compile(
    rb"7|2[07]|21[1-368]|2[2-6]\d|29[0-13-9]|3[0-469]|3[578]\d|4[013-9]|42\d|5[1-8]|5[09]\d|6[0-6]|6[789]\d|8[1246]|8[058]\d|9[0-58]|9[679]\d"
)


def international_phone(view: View, match: re.Match[bytes], start: int, end: int) -> TextRange | None:
    """A number that begins with a country code."""
    return (start, end) if _COUNTRY.match(_digits(view, start, end)) else None


def trunk_phone(view: View, match: re.Match[bytes], start: int, end: int) -> TextRange | None:
    """A number that begins with one 0, as it is dialled within a country."""
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


def iban_at(view: View, pos: int) -> TextRange | None:
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
        "us-ssn": len(digits) == 9 and social_security(view, match, start, match.end()) is not None,
        "bank-routing": len(digits) == 9
        and sum(w * (b - 48) for w, b in zip((3, 7, 1) * 3, digits, strict=True)) % 10 == 0,
        "bank-account": len(digits) <= 17,
    }
    return (kind, start, match.end()) if fits[kind] else None
