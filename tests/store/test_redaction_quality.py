"""How much the redactor finds and how much it takes by mistake, on a labelled set; and against another tool.

The detectors were developed on other seeds of the same generator. `pytest -s` prints the table.
"""

from __future__ import annotations

import importlib.util
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from detect_secrets.core.plugins.util import get_mapping_from_secret_type_to_class

from ethogram.store.redact import KINDS, Redactor

SEED = 20_260_517
REDACTOR = Redactor(b"a key for tests")
# Detectors of detect-secrets that know a provider's format. Left out: those that go by entropy, keywords or public
# addresses, and two whose patterns ("AP" and a few letters; any 44 characters behind "key") also match plain names.
PROVIDERS = (
    "AWS Access Key", "Azure Storage Account access key", "Basic Auth Credentials", "Discord Bot Token", "GitHub Token",
    "GitLab Token", "JSON Web Token", "Mailchimp Access Key", "NPM tokens", "OpenAI Token", "Private Key", "PyPI Token",
    "SendGrid API Key", "Slack Token", "Square OAuth Secret", "Stripe Access Key", "Telegram Bot Token",
    "Twilio API Key",
)  # fmt: skip


def _generator() -> ModuleType:
    """Load the neighbour by its path: tests are no package."""
    spec = importlib.util.spec_from_file_location("redaction_set", Path(__file__).with_name("redaction_set.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def cases() -> list[Any]:
    """The set that nobody looked at while the detectors were written."""
    return list(_generator().make_set(SEED))


class Score:
    """Counts by kind: what was planted and covered, what was found and right."""

    def __init__(self, cases: list[Any]) -> None:
        self.planted: Counter[str] = Counter()
        self.covered: Counter[str] = Counter()
        self.named: Counter[str] = Counter()
        self.found: Counter[str] = Counter()
        self.right: Counter[str] = Counter()
        for case in cases:
            self.add(case)

    def add(self, case: Any) -> None:
        findings = REDACTOR.find(case.text)
        for planted in case.planted:
            over = [f for f in findings if f.start < planted.end and f.end > planted.start]
            covered = sum(min(f.end, planted.end) - max(f.start, planted.start) for f in over)
            self.planted[planted.kind] += 1
            self.covered[planted.kind] += covered == planted.end - planted.start
            self.named[planted.kind] += any(f.kind == planted.kind for f in over)
        for finding in findings:
            self.found[finding.kind] += 1
            self.right[finding.kind] += any(finding.start < p.end and finding.end > p.start for p in case.planted)

    @property
    def recall(self) -> float:
        return self.covered.total() / self.planted.total()

    @property
    def precision(self) -> float:
        return self.right.total() / self.found.total()

    def table(self) -> Iterator[str]:
        yield f"{'kind':20} {'planted':>8} {'recall':>7} {'named':>7} {'found':>6} {'precision':>10}"
        for kind in sorted({*self.planted, *self.found}):
            planted, found = self.planted[kind], self.found[kind]
            recall = f"{self.covered[kind] / planted:7.3f} {self.named[kind] / planted:7.3f}" if planted else " " * 15
            yield f"{kind:20} {planted:8} {recall} {found:6} {self.right[kind] / found if found else 1:10.3f}"
        named = self.named.total() / self.planted.total()
        planted, found = self.planted.total(), self.found.total()
        yield f"{'all':20} {planted:8} {self.recall:7.3f} {named:7.3f} {found:6} {self.precision:10.3f}"


def test_recall_and_precision_on_the_labelled_set(cases: list[Any]) -> None:
    assert len(cases) >= 2000
    score = Score(cases)
    print("\n" + "\n".join(score.table()))
    assert set(score.planted) == set(KINDS)
    assert min(score.planted.values()) >= 20
    assert score.recall >= 0.99
    assert score.precision >= 0.97
    low = {kind: score.covered[kind] / n for kind, n in score.planted.items() if score.covered[kind] / n < 0.95}
    assert not low


def test_no_planted_secret_survives_in_what_is_stored(cases: list[Any]) -> None:
    """The same in other words: what the store would write does not hold the secrets, or hardly any."""
    planted = [(case, case.text[p.start : p.end]) for case in cases for p in case.planted]
    kept = [secret for case, secret in planted if secret in REDACTOR.redact(case.text).text]
    assert len(kept) / len(planted) < 0.01


def test_redaction_of_the_whole_set_is_stable(cases: list[Any]) -> None:
    for case in cases:
        once = REDACTOR.redact(case.text).text
        assert REDACTOR.redact(once).findings == ()


def _known_to_detect_secrets(text: str, detectors: list[Any]) -> Iterator[tuple[str, str]]:
    for line in text.splitlines():
        for detector in detectors:
            yield from ((detector.secret_type, secret) for secret in detector.analyze_string(line) if secret)


def test_all_that_detect_secrets_knows_by_format_is_covered(cases: list[Any]) -> None:
    classes: dict[str, Any] = get_mapping_from_secret_type_to_class()
    detectors = [classes[name]() for name in PROVIDERS]
    seen, missed = Counter[str](), []
    for case in cases:
        planted = [case.text[p.start : p.end] for p in case.planted]
        redacted = REDACTOR.redact(case.text).text
        for name, secret in _known_to_detect_secrets(case.text, detectors):
            if any(secret in value or value in secret for value in planted):
                seen[name] += 1
                missed += [(name, secret, case.text)] if secret in redacted else []
    assert seen.total() > 500
    assert len(seen) == len(PROVIDERS)
    assert not missed


def test_a_secret_is_found_as_well_where_many_short_texts_are_searched_together(cases: list[Any]) -> None:
    """An import searches the strings of a record at once, and takes what is then clean to be clean for good."""
    short = [case.text for case in cases if len(case.text) <= 1000]
    guilty = [text for text in short if REDACTOR.find(text)]
    clean = [text for text in short if text not in set(guilty)]
    assert len(guilty) > 300
    assert len(clean) > 50
    for number, text in enumerate(guilty):
        before, after = clean[number % len(clean)], clean[(7 * number + 1) % len(clean)]
        assert not REDACTOR.are_clean([before, text, after]), text
        assert not REDACTOR.are_clean([text] * 40), text
