"""Samples of lm-evaluation-harness: `samples_TASK_TIME.jsonl`, which `lm_eval --log_samples --output_path` writes.

One trace per sample: the prompt, the answer and every metric as a label. The task is the name in the file's name with
the number of the document; a folder above it is the model. The outcome is `exact_match`, `acc` or `pass@1` where it is
there, else the metric that the sample names first. A sample that several filters grade is there once for each: the
filter is the condition. `results_TIME.json` holds means and no episode; it is listed with that reason. Written from
files of lm-evaluation-harness itself.
"""

from __future__ import annotations

import re
from typing import Any

from ethogram.capture.intake import Intake
from ethogram.capture.parse import as_dict, as_float, as_list, as_name, as_text, to_json
from ethogram.capture.peek import Peek, peek_at
from ethogram.capture.records import objects, records
from ethogram.capture.source import Source
from ethogram.errors import Unreadable
from ethogram.traces import Missing, Outcome, Scored

from ._graded import add_exchange, add_grades

FORMAT = "lm-eval"
_SAMPLE = {"doc_id", "doc", "target", "arguments", "resps", "filtered_resps"}
_RESULTS = {"results", "configs", "n-samples"}
_PREFERRED = ("exact_match", "acc", "pass@1", "pass_at_1", "em", "accuracy")
_FILE = re.compile(r"samples_(.+)_\d{4}-\d\d-\d\dT[\d.-]+\.jsonl")
MARKS = frozenset(["doc_id", "results"])


def sniff(peek: Peek) -> int:
    """Samples with a document and responses, or the means of a whole evaluation."""
    first = peek.first
    return 95 if first.keys() >= _SAMPLE or first.keys() >= _RESULTS else 0


def read(source: Source, intake: Intake) -> None:
    """One trace per sample."""
    if peek_at(source).first.keys() >= _RESULTS:
        raise Unreadable("means of tasks without samples; run lm_eval with --log_samples and import samples_*.jsonl")
    folder, _, file = source.name.rpartition("/")
    named = _FILE.search(file)
    for where, sample in objects(records(source, intake), intake):
        with intake.record(where):
            _read_sample(sample, named.group(1) if named else "", folder.rpartition("/")[2], intake)


def _read_sample(sample: dict[str, Any], suite: str, model: str, intake: Intake) -> None:
    document, graded = as_text(sample["doc_id"]), as_name(sample.get("filter"))
    condition = "" if graded == "none" else graded
    with intake.trace(f"{document}/{condition}") as trace:
        trace.task = f"{suite or 'doc'}/{document}"
        trace.agent, trace.condition = model, condition
        trace.outcome = _outcome(sample)
        trace.meta = {
            "model": model or None,
            "expected": as_text(sample["target"]) if sample.get("target") is not None else None,
            "doc_hash": as_name(sample.get("doc_hash")) or None,
            "doc": to_json(sample["doc"]) if sample.get("doc") is not None else None,
        }
        asked = [as_dict(a) for a in as_dict(sample.get("arguments")).values()]
        add_exchange(trace, asked[0].get("arg_0") if asked else None, _answer(sample, asked), model=model or None)
        repeated = max((len(as_list(r)) for r in as_list(sample.get("resps"))), default=1)
        intake.lose("repeated responses (graded as one)", repeated - 1)
        names = [as_name(m) for m in as_list(sample.get("metrics"))]
        add_grades(trace, ({"name": name, "value": sample.get(name)} for name in names), FORMAT)


def _answer(sample: dict[str, Any], asked: list[dict[str, Any]]) -> str | None:
    """What was graded: the words of the model, or the choice that it finds likeliest."""
    given = as_list(sample.get("filtered_resps"))
    if not given:
        return None
    if len(given) == 1 or len(given) != len(asked):
        return as_text(given[0])
    likely = [as_float(as_list(g)[0]) if as_list(g) else None for g in given]
    best = max(range(len(given)), key=lambda i: float("-inf") if likely[i] is None else likely[i])  # type: ignore[arg-type, return-value]
    return as_text(asked[best].get("arg_1"))


def _outcome(sample: dict[str, Any]) -> Outcome:
    names = [as_name(m) for m in as_list(sample.get("metrics"))]
    for name in (*(p for p in _PREFERRED if p in names), *names):
        value = sample.get(name)
        number = float(value) if isinstance(value, bool) else as_float(value)
        if number is not None:
            return Scored(number, name)
    return Missing("unscored", "no metric of the sample is a number")
