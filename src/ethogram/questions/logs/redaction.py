"""A dry run of redaction: what an import would take out, without storing anything or showing a secret."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec

from ethogram.capture.discover import sources
from ethogram.capture.intake import Intake, SourceReport
from ethogram.capture.readers import reader, recognise
from ethogram.capture.source import Source
from ethogram.errors import Unreadable
from ethogram.result import Result
from ethogram.store import Home, Redactor, home_of
from ethogram.store.redact import policy_from
from ethogram.traces import Head, Label, Origin, Ref, Span, TraceId, text_ref


class PreviewedSecret(msgspec.Struct, kw_only=True):
    """How often one kind of secret was found in one field; `examples` are marks, never the secrets."""

    kind: str
    field: str
    count: int
    distinct: int
    examples: list[str]


class RedactionPreview(Result, kw_only=True):
    """What would be redacted."""

    sources: int
    texts: int
    chars: int
    found: list[PreviewedSecret]
    skipped: list[str]

    def rows(self) -> list[dict[str, Any]]:
        """One row per kind and field."""
        return [msgspec.to_builtins(f) for f in self.found]


class _LookingSink:
    """Redacts, counts and keeps nothing."""

    idle = False

    def __init__(self, redactor: Redactor, marks: dict[tuple[str, str], Counter[str]], seen: list[int]) -> None:
        self._redactor = redactor
        self._marks = marks
        self._seen = seen

    def text(self, body: str, field: str, original: str | None = None) -> Ref:
        return text_ref(self.clean(body, field) if field else body)

    def clean(self, value: str, field: str) -> str:
        redacted = self._redactor.redact(value, field)
        self._seen[0] += 1
        self._seen[1] += len(value)
        for finding in redacted.findings:
            self._marks.setdefault((finding.kind, field), Counter())[finding.mark] += 1
        return redacted.text

    def named(self, words: str) -> str:
        return self.clean(words, "task")

    def span(self, span: Span) -> None:
        pass

    def finish(self, head: Head, labels: Sequence[Label]) -> None:
        pass

    def abort(self) -> None:
        pass


def preview_redaction(
    paths: Sequence[str],
    *,
    format: str | None = None,
    policy: str = "default",
    patterns: Sequence[str] = (),
    home: Home | str | None = None,
) -> RedactionPreview:
    """What an import of these paths would redact, by kind and field."""
    lake = home_of(home)
    redactor = lake.redactor(policy_from(policy, patterns))
    marks: dict[tuple[str, str], Counter[str]] = {}
    seen, skipped, count = [0, 0], [], 0

    def is_log(source: Source) -> bool:
        return bool(format) or recognise(source) is not None

    def tell(problem: str) -> None:
        skipped.append(redactor.redact(problem, "error").text)  # it may quote a name, and with it what is secret there

    def open_sink(trace: TraceId) -> _LookingSink:
        return _LookingSink(redactor, marks, seen)

    for path in paths:
        for source in sources(path, is_log, lambda where, why: tell(f"{where}: {why}")):
            count += 1
            found = reader(format) if format else recognise(source)
            if found is None:
                tell(f"{source.name}: no reader recognises this content")
                continue
            try:
                origin = Origin(found.format, source.name, source.digest)
                found.read(source, Intake(open_sink, origin, SourceReport(source=source.name)))
            except Unreadable as error:
                tell(error.cli_message)
            except OSError as error:
                tell(f"{source.name}: cannot be read: {error.strerror or error}")
    rows = [
        PreviewedSecret(
            kind=kind, field=field, count=c.total(), distinct=len(c), examples=[m for m, _ in c.most_common(3)]
        )
        for (kind, field), c in sorted(marks.items())
    ]
    return RedactionPreview(sources=count, texts=seen[0], chars=seen[1], found=rows, skipped=skipped)
