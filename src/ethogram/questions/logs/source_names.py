"""Names of sources and words of their reports, redacted: they are kept in the home and shown on screens."""

from __future__ import annotations

import re
from pathlib import Path

from ethogram.capture.intake import Skipped, SourceReport
from ethogram.store import Redactor

_ENDING = re.compile(r"(?<=.)\.[A-Za-z][A-Za-z0-9]{0,6}$")


def redacted_report(report: SourceReport, redactor: Redactor) -> SourceReport:
    """The report itself, with its words redacted: reasons and field names quote what they complain of."""
    if redactor.idle:
        return report
    report.columns = redactor.redact(report.columns, "meta").text
    report.notes = [redactor.redact(note, "meta").text for note in report.notes]
    report.skipped = [
        Skipped(clean_name(s.where, redactor), redactor.redact(s.why, "error").text) for s in report.skipped
    ]
    lost, report.lost = report.lost, {}
    for field, count in lost.items():
        report.lose(redactor.redact(field, "meta").text, count)
    return report


def stems_of(name: str) -> list[str]:
    """What stands before each dot in the parts of a name."""
    return [part[:dot] for part in name.split("/") for dot, sign in enumerate(part) if sign == "." and dot]


def clean_name(name: str, redactor: Redactor) -> str:
    """The name of a source, redacted; an ending such as `.json` must not hide what stands before it."""
    if "source" not in redactor.policy.fields and redactor.are_clean([name, *stems_of(name)]):
        return name
    parts = redactor.redact(name, "source").text.split("/")
    for number, part in enumerate(parts):
        stem, dot, ending = part.rpartition(".")
        while stem:
            redacted = redactor.redact(stem, "source")
            if redacted.findings:
                parts[number] = f"{redacted.text}{dot}{ending}"
                break
            stem, dot, more = stem.rpartition(".")
            ending = f"{more}.{ending}"
    return "/".join(parts)


def run_name(path: str | Path, redactor: Redactor) -> str:
    """A name after the file; what is secret in that is as secret in the name of a run."""
    stem = "stdin" if str(path) == "-" else clean_name(Path(path).absolute().name, redactor)
    while not Path(path).is_dir() and (ending := _ENDING.search(stem)):  # of `gpt-4.1.json.gz` the `.1` is no ending
        stem = stem[: ending.start()]
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", stem).strip("-._")[:80]
    return "import" if name in ("", "latest") else name
