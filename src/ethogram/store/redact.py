"""Redaction before the first byte: secrets and personal data become typed marks, equal secrets equal marks.

`Redactor(key).redact("mail joe@example.org")` gives `mail [REDACTED:email:1f0c9a3e]`. The eight digits are a hash
keyed with the home's own key: they say that two secrets are the same, and nothing else. Redacting twice changes
nothing: marks are never matched, and a text is searched until nothing more is found in it.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from difflib import get_close_matches
from hashlib import blake2b
from itertools import accumulate
from typing import Any, Literal, get_args

import msgspec

from ethogram.errors import BadUsage
from ethogram.traces import REDACTION_MARK, is_all_marked

from .detectors import (
    DETECTORS,
    NUMBER_KINDS,
    PERSONAL_KINDS,
    SECRET_KINDS,
    Detector,
    clusters,
    telling_kind,
)
from .disguise import readings
from .ledger import gc_paused
from .lookalikes import iban_at, labelled_at
from .text_view import View, as_bytes

Action = Literal["redact", "keep", "drop", "hash"]
KINDS: tuple[str, ...] = tuple(dict.fromkeys(SECRET_KINDS + PERSONAL_KINDS))
FIELDS = ("name", "error", "input", "output", "arguments", "result", "attributes", "answer", "task", "meta", "source",
          "label")  # fmt: skip
_RESERVED = ("field", "hash")
_LONG = 100_000
_BETWEEN = "\n\0\n"
_SHORTEST = 6
_PASSES = 32  # two are usual; more only for texts that are made to chain
_BARE = re.compile(r"(\\*[\"'])\s*:\s*$")
_Hit = tuple[int, int, int, str]


class FoundSecret(msgspec.Struct, frozen=True):
    """One secret: what it is, where it stood in the text, and the mark that replaces it."""

    kind: str
    start: int
    end: int
    mark: str


class Redacted(msgspec.Struct, frozen=True):
    """A text that may be stored, and what was taken out of it."""

    text: str
    findings: tuple[FoundSecret, ...] = ()


class Policy(msgspec.Struct, frozen=True):
    """What to take out: the kinds that are on (None means all), patterns of one's own, and an action per field."""

    kinds: tuple[str, ...] | None = None
    patterns: dict[str, str] = {}
    fields: dict[str, Action] = {}


DEFAULT = Policy()
SECRETS = Policy(kinds=SECRET_KINDS)
NOTHING = Policy(kinds=())
_PRESETS = {"default": DEFAULT, "secrets": SECRETS, "none": NOTHING}


def policy_from(
    spec: str | Policy | Mapping[str, object] = "default",
    patterns: Mapping[str, str] | Iterable[str] = (),
    fields: Mapping[str, Action] | None = None,
) -> Policy:
    """A policy by its name, with changes: `policy_from("secrets,+email,-jwt,arguments=drop", ["ticket=T-[0-9]+"])`."""
    if isinstance(spec, Policy):
        policy = spec
    elif isinstance(spec, str):
        policy = _from_words(spec)
    else:
        try:
            policy = msgspec.convert(spec, Policy)
        except msgspec.ValidationError as error:
            raise BadUsage(f"the redaction policy cannot be read: {error}") from None
    pairs = patterns.items() if isinstance(patterns, Mapping) else (_named(item) for item in patterns)
    policy = Policy(policy.kinds, policy.patterns | dict(pairs), policy.fields | dict(fields or {}))
    _compiled(policy)
    return policy


def _named(item: str) -> tuple[str, str]:
    name, equals, pattern = item.partition("=")
    if not equals:
        raise BadUsage(f"the redaction pattern {item!r} has no name; write it as NAME=REGEX")
    return name, pattern


def _from_words(spec: str) -> Policy:
    first, *words = [word.strip() for word in spec.split(",")]
    if first not in _PRESETS:
        known = tuple(_PRESETS)
        problem = f"no redaction policy named {first!r}; known: {', '.join(known)}"
        raise BadUsage(problem, option="redact", value=first, choices=known)
    kinds, actions = _PRESETS[first].kinds, dict(_PRESETS[first].fields)
    for word in words:
        field, equals, action = word.partition("=")
        if equals:
            actions[field] = action  # type: ignore[assignment]  # checked with the rest of the policy
        elif word[:1] in ("+", "-"):
            others = tuple(k for k in (KINDS if kinds is None else kinds) if k != word[1:])
            _known_kind(word[1:])
            kinds = (*others, word[1:]) if word[0] == "+" else others
        else:
            raise BadUsage(f"{word!r} makes no sense in a redaction policy; write +KIND, -KIND or FIELD=ACTION")
    return Policy(kinds=kinds, fields=actions)


def _known_kind(kind: str) -> None:
    if kind not in KINDS:
        near = get_close_matches(kind, KINDS, n=1)
        raise BadUsage(f"no redaction kind named {kind!r}; " + (f"did you mean {near[0]!r}?" if near else "see KINDS"))


def _compiled(policy: Policy) -> tuple[tuple[str, re.Pattern[str]], ...]:
    """Check a policy from outside, and compile its patterns."""
    for kind in policy.kinds or ():
        _known_kind(kind)
    for field, action in policy.fields.items():
        if field not in FIELDS:
            raise BadUsage(f"no field named {field!r} to redact; known: {', '.join(FIELDS)}")
        if action not in get_args(Action):
            raise BadUsage(f"{action!r} is not a redaction action for {field!r}; known: {', '.join(get_args(Action))}")
    compiled = []
    for name, pattern in policy.patterns.items():
        if not re.fullmatch(r"[a-z0-9][a-z0-9-]{0,39}", name) or name in KINDS or name in _RESERVED:
            raise BadUsage(f"{name!r} cannot name a redaction pattern; use unused lower-case letters, digits and '-'")
        try:
            regex = re.compile(pattern)
        except (re.error, OverflowError, RecursionError) as error:
            raise BadUsage(f"the redaction pattern {name!r} is not a regular expression: {error}") from None
        if regex.match("") is not None:
            raise BadUsage(f"the redaction pattern {name!r} matches the empty text; make it demand a character")
        compiled.append((name, regex))
    return tuple(compiled)


class Redactor:
    """Finds and marks secrets under one policy, with one key."""

    def __init__(self, key: bytes, policy: Policy = DEFAULT) -> None:
        """The key makes marks useless to guess from; keep it with the home."""
        self.policy = policy
        self._patterns = _compiled(policy)
        self._on = frozenset(KINDS if policy.kinds is None else policy.kinds)
        if not key and (self._on or self._patterns or policy.fields):
            raise BadUsage("redaction needs a key, or anybody could guess what its marks hide")
        self._key = key if len(key) <= 64 else blake2b(key).digest()
        rows = [(len(self._patterns) + i, row) for i, row in enumerate(DETECTORS) if self._wants(row)]
        by_tail: dict[bytes, list[tuple[int, Detector, bytes]]] = {b"": []}
        for order, row in rows:
            for anchor, tail in row.tails().items() if row.sweep == "run" else ():
                by_tail.setdefault(tail, []).append((order, row, anchor))
        self._plain = by_tail.pop(b"")
        self._tails = by_tail
        self._loose = [r for r in rows if r[1].sweep == "run" and not r[1].anchors]
        places: dict[tuple[bool, bytes], list[tuple[int, Detector]]] = {}
        for order, row in rows:
            for anchor in row.anchors if row.sweep in ("raw", "word") else ():
                places.setdefault((row.sweep == "word", anchor), []).append((order, row))
        self._texts = [(*place, found) for place, found in places.items()]
        self.idle = not (self._on or self._patterns or policy.fields)
        """Whether nothing is ever redacted."""
        self._numbers = not self._on.isdisjoint(PERSONAL_KINDS)
        self._secrets = not self._on.isdisjoint(SECRET_KINDS)

    def _wants(self, row: Detector) -> bool:
        # A value given to a name may turn out to be of a more telling kind, so those rows always run.
        return row.kind in self._on or (row.sweep == "word" and not self._on.isdisjoint(SECRET_KINDS))

    def mark(self, text: str) -> str:
        """The keyed hash of a whole text, long enough never to collide."""
        return self._hash(text, 16)

    def find(self, text: str) -> tuple[FoundSecret, ...]:
        """Every secret in the text, in order, none overlapping."""
        if len(text) < _SHORTEST and not self._patterns:
            return ()
        marks = [m.span() for m in REDACTION_MARK.finditer(text)] if "[REDACTED:" in text else []
        raw = as_bytes(text) if self._on else b""
        hits: list[_Hit] = []
        fresh = marks
        # What a mark replaces may have hidden something, so look again until nothing more is found.
        for _ in range(_PASSES):
            raw = _blanked(raw, fresh) if raw and fresh else raw
            # a long text is cut into very many pieces, and there is no garbage among them
            with gc_paused() if len(text) > _LONG else nullcontext():
                found = self._once(text, raw, sorted(marks + [hit[:2] for hit in hits]))
            if not found:
                break
            hits += found
            fresh = [hit[:2] for hit in found]
        return tuple(self._finding(text, hit) for hit in sorted(hits))

    def are_clean(self, texts: Sequence[str]) -> bool:
        """Whether there is nothing to redact in any of some short texts: one search instead of one for each.

        What is found in one of them alone is found here too, since no pattern crosses the NUL between them. More may be
        found, so after a False each text is to be asked alone.
        """
        return self.idle or not (self._patterns or self.find(_BETWEEN.join(texts)))

    def suspects(self, texts: Sequence[str]) -> list[int]:
        """Positions of those of some texts in which there may be something to redact, found in one search of all.

        All others are clean; each of these is still to be asked alone.
        """
        if self.idle:
            return []
        if self._patterns:
            return list(range(len(texts)))
        findings = self.find(_BETWEEN.join(texts))
        if not findings:
            return []
        starts = list(accumulate((len(text) + len(_BETWEEN) for text in texts), initial=0))
        return sorted(
            {
                position
                for finding in findings
                for position in range(bisect_right(starts, finding.start) - 1, bisect_right(starts, finding.end - 1))
            }
        )

    def redact(self, text: str, field: str = "") -> Redacted:
        """The text as it may be stored in this field."""
        action = self.policy.fields.get(field, "redact")
        if action == "keep" or not text or self.idle:
            return Redacted(text)
        if action in ("drop", "hash"):
            if is_all_marked(text):
                return Redacted(text)
            kind, size = ("field", 4) if action == "drop" else ("hash", 16)
            mark = f"[REDACTED:{kind}:{self._hash(text, size)}]"
            return Redacted(mark, (FoundSecret(kind, 0, len(text), mark),))
        findings = self.find(text)
        if not findings:
            return Redacted(text)
        pieces, at = [], 0
        for finding in findings:
            quote = _quote_for(text, finding)
            pieces += [text[at : finding.start], quote, finding.mark, quote]
            at = finding.end
        return Redacted("".join([*pieces, text[at:]]), findings)

    def redact_all(self, value: Any, field: str = "") -> Any:
        """Records, lists and words of a setting, as they may be stored; numbers stay as they are."""
        if isinstance(value, str):
            return self.redact(value, field).text
        if isinstance(value, Mapping):
            return {self.redact(str(k), field).text: self._named_value(str(k), v, field) for k, v in value.items()}
        return [self.redact_all(v, field) for v in value] if isinstance(value, list | tuple) else value

    def _named_value(self, name: str, value: Any, field: str) -> Any:
        """A value that a name is given to: `{"password": "…"}` is told by the name alone."""
        if not isinstance(value, str):
            return self.redact_all(value, field)
        lead = f"{name}="
        told = self.redact(lead + value, field).text
        return told[len(lead) :] if told.startswith(lead) else self.redact(value, field).text

    def _hash(self, text: str, size: int) -> str:
        return blake2b(text.encode("utf-8", "surrogatepass"), key=self._key, digest_size=size).hexdigest()

    def _finding(self, text: str, hit: _Hit) -> FoundSecret:
        start, end, _, kind = hit
        return FoundSecret(kind, start, end, f"[REDACTED:{kind}:{self._hash(text[start:end], 4)}]")

    def _once(self, text: str, raw: bytes, taken: list[tuple[int, int]]) -> list[_Hit]:
        """One search: of overlapping hits the earliest stays, then the longest, then the first of the table."""
        hits = list(self._own(text, taken)) if self._patterns else []
        if self._on:
            view = View(raw)
            hits += [hit for hit in self._scan(view) if hit[3] in self._on]
            if self._secrets:
                hits += self._disguised(raw, view)
        kept: list[_Hit] = []
        for hit in sorted(hits, key=lambda h: (h[0], -h[1], h[2])):
            if not kept or hit[0] >= kept[-1][1]:
                kept.append(hit)
        return kept

    def _disguised(self, raw: bytes, view: View) -> Iterator[_Hit]:
        """Secrets that stand in the text encoded, escaped, spaced out or broken over lines."""
        reading = readings(raw, view)
        if not reading:
            return
        plain = reading.text()
        for start, end, order, kind in self._scan_secrets(View(plain)):
            if kind in self._on and reading.is_disguised(start, end, plain):
                yield (*reading.bounds(start, end), order, kind)

    def _own(self, text: str, taken: list[tuple[int, int]]) -> Iterator[_Hit]:
        """The caller's own patterns, on the text with each mark shrunk to one NUL, which no match may hold."""
        edges = [0, *(edge for span in taken for edge in span), len(text)]
        starts, pieces = edges[::2], [text[low:high] for low, high in zip(edges[::2], edges[1::2], strict=True)]
        bases = list(accumulate((len(piece) + 1 for piece in pieces), initial=0))
        view = "\0".join(pieces)
        for order, (name, regex) in enumerate(self._patterns):
            match = regex.search(view)
            while match is not None:
                start, end = match.span(1 if regex.groups else 0)
                crossed = view.find("\0", match.start(), match.end())
                if start < end and crossed < 0:
                    piece = bisect_right(bases, start) - 1
                    shift = starts[piece] - bases[piece]
                    yield start + shift, end + shift, order, name
                match = regex.search(view, crossed + 1 if crossed >= 0 else max(match.end(), match.start() + 1))

    def _scan(self, view: View) -> Iterator[_Hit]:
        yield from self._scan_secrets(view)
        if self._numbers:
            yield from _numbers(view, len(self._patterns))

    def _scan_secrets(self, view: View) -> Iterator[_Hit]:
        if view.runs:
            yield from self._scan_runs(view)
        for words, anchor, rows in self._texts:
            data = view.low if words else view.raw
            first = data.find(anchor)
            if first >= 0:
                for order, row in rows:
                    yield from _in_text(order, row, view, anchor, first)

    def _scan_runs(self, view: View) -> Iterator[_Hit]:
        """Providers' tokens: looked for in the long runs, then matched in the text itself."""
        likely = [each for tail in view.tails & self._tails.keys() for each in self._tails[tail]]
        for order, row, anchor in likely + self._plain:
            if anchor in view.runs:
                yield from _at_anchor(order, row, view, anchor)
        for order, row in self._loose:
            if row.regex.search(view.runs):
                spans = ((row.take(view, match)) for match in row.regex.finditer(view.raw))
                yield from ((*span, order, row.kind) for span in spans if span is not None)


def _blanked(raw: bytes, spans: Iterable[tuple[int, int]]) -> bytes:
    patched = bytearray(raw)
    for start, end in spans:
        patched[start:end] = bytes(end - start)
    return bytes(patched)


def _at_anchor(order: int, row: Detector, view: View, anchor: bytes) -> Iterator[_Hit]:
    """Try a row wherever its anchor stands in the text; the pattern begins with the anchor."""
    pos = view.raw.find(anchor)
    while pos >= 0:
        match = row.regex.match(view.raw, pos)
        after = pos + len(anchor)
        if match is not None:
            span = row.take(view, match)
            if span is not None:
                yield (*span, order, row.kind)
            # Also behind a lookalike: a long one would else be read again from each anchor inside it.
            after = max(after, match.end())
        pos = view.raw.find(anchor, after)


def _in_text(order: int, row: Detector, view: View, anchor: bytes, first: int) -> Iterator[_Hit]:
    """The same for rows of frequent anchors: from the `first` one on the pattern itself searches, and far faster."""
    words = row.sweep == "word"
    data = view.low if words else view.raw
    match = row.regex.search(data, first)
    while match is not None:
        span = row.take(view, match)
        if span is not None:
            yield (*span, order, telling_kind(row.kind, view, match) if words else row.kind)
        # Behind the name of a short lookalike may come another name; long ones are not read twice.
        again = words and span is None and match.end() - match.start() < 96
        match = row.regex.search(data, match.start() + len(anchor) if again else match.end())


def _numbers(view: View, first: int) -> Iterator[_Hit]:
    """Cards, phones and accounts, wherever digits cluster."""
    last = first + len(DETECTORS)
    for start, base, hits in clusters(view):
        for order, low in hits:
            row = DETECTORS[order]
            match = row.regex.match(view.shape, base + low)
            span = row.take(view, match) if match else None
            if span is not None:
                yield (*span, first + order, row.kind)
        iban = iban_at(view, start)
        if iban is not None:
            yield (*iban, last, "iban")
        labelled = labelled_at(view, start)
        if labelled is not None:
            kind, low, high = labelled
            yield low, high, last + NUMBER_KINDS.index(kind), kind


def _quote_for(text: str, finding: FoundSecret) -> str:
    """A bare number in JSON gets quotes around its mark, in the style of its key, so that the JSON stays readable."""
    if not text[finding.start : finding.end].isdigit() or text[finding.end : finding.end + 1] not in ",}] \n":
        return ""
    key = _BARE.search(text, max(0, finding.start - 12), finding.start)
    return key[1] if key else ""
