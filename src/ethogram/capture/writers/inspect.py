"""Inspect's `.eval`: one zip, a sample per trace, that `inspect view` and `read_eval_log` open.

Task and attempt become sample id and epoch, the outcome the first score, every label a score. Traces are
written one at a time; only the header, the last member, needs to know them all.
"""

from __future__ import annotations

import zipfile
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from ethogram.capture.inspect.out import TraceEvents, inspect_time, inspect_usage, is_root, model_name
from ethogram.capture.inspect.places import OWN
from ethogram.capture.inspect.pool import JsonObject, MessagePool
from ethogram.capture.inspect.scores import grade
from ethogram.capture.parse import as_dict, as_name
from ethogram.traces import Label, Missing, Scored, Span, Trace, digest, inner_ids, message_order

FORMAT = "inspect"

_NAN = msgspec.Raw(b"NaN")  # how Inspect writes a score that has no value
_UNDATED = "1970-01-01T00:00:00+00:00"
_RESTORED: dict[str, type] = {"input": str, "choices": list, "metadata": dict, "store": dict, "setup": str}


def write(traces: Iterable[Trace], path: Path | BinaryIO, *, task: str = "", model: str = "") -> dict[str, int]:
    """Write traces as one log and count what it could not say.

    `task` and `model` name the log; without them the traces do, where they agree.
    """
    lost: Counter[str] = Counter()
    header = _Header(task, model)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for trace in traces:
            epoch = header.epoch(trace, lost)
            sample = _sample(trace, epoch, lost)
            header.add(trace, sample)
            _put(archive, f"samples/{sample['id']}_epoch_{epoch}.json", sample)
        _put(archive, "summaries.json", header.summaries)
        _put(archive, "header.json", header.content())
    return {k: n for k, n in lost.items() if n}


def _put(archive: zipfile.ZipFile, name: str, value: Any) -> None:
    """A member with a fixed date, so that the same traces give the same bytes."""
    info = zipfile.ZipInfo(name)
    info.compress_type = zipfile.ZIP_DEFLATED
    archive.writestr(info, msgspec.json.encode(value))


def _sample(trace: Trace, epoch: int, lost: Counter[str]) -> JsonObject:
    head = trace.head
    pool = MessagePool(trace, lost)
    events = list(TraceEvents(trace, pool, lost))
    messages = pool.written(list(message_order(trace.spans)))
    root = next((s for s in trace.spans if is_root(s)), None)
    kept = as_dict(trace.texts.get(root.attributes)) if root is not None and root.attributes else {}
    restored = {k: kept[k] for k, shape in _RESTORED.items() if isinstance(kept.get(k), shape)}
    if _is_target(kept.get("target")):
        restored["target"] = kept["target"]
    asked = next((m["content"] for m in messages if m["role"] == "user" and isinstance(m["content"], str)), "")
    scores, by = _scores(trace, lost)
    own = _own(trace, root, by, {k: v for k, v in kept.items() if k not in restored})
    if epoch != head.attempt + 1:
        own["attempt"] = head.attempt
    times = (head.start_ns, head.end_ns)
    start, end = times if root is None or root.start_ns is None else (root.start_ns, root.end_ns)
    sample = {
        "id": head.task,
        "epoch": epoch,
        **{"input": asked, "target": "", "store": {}, **restored},
        "messages": messages,
        "output": _output(trace, events),
        "scores": scores,
        "metadata": {**restored.get("metadata", {}), OWN: own},
        "events": events,
        "model_usage": _usage(trace),
        "started_at": inspect_time(start),
        "completed_at": inspect_time(end),
        "total_time": None if start is None or end is None else (end - start) / 1e9,
        "uuid": as_name(head.meta.get("uuid")) or head.episode,
        "error": _error(trace, root),
        "attachments": {},
        "events_data": {"messages": pool.messages, "calls": []},
    }
    return {k: v for k, v in sample.items() if v is not None}


def _is_target(value: Any) -> bool:
    return isinstance(value, str) or (isinstance(value, list) and all(isinstance(v, str) for v in value))


def _own(trace: Trace, root: Span | None, by: str, rest: JsonObject) -> JsonObject:
    """What a sample of Inspect has no field for; our reader puts it back."""
    head = trace.head
    own: JsonObject = {"agent": head.agent, "condition": head.condition, "seed": head.seed, "meta": head.meta}
    own |= {"rooted": root is not None, "root": rest, "answered": head.answer is not None}
    if isinstance(head.outcome, Scored):
        own |= {"by": by, "scorer": head.outcome.by}
    else:
        own |= {"missing": head.outcome.reason, "detail": head.outcome.detail}
    return {k: v for k, v in own.items() if v is not None}


def _output(trace: Trace, events: list[JsonObject]) -> JsonObject:
    """The last output, and the answer as its completion."""
    last: JsonObject = next(
        (e["output"] for e in reversed(events) if e["event"] == "model" and e["output"]["choices"]), {}
    )
    answer = trace.head.answer
    return {**last, "completion": trace.texts.get(answer, "") if answer is not None else ""}


def _error(trace: Trace, root: Span | None) -> JsonObject | None:
    outcome = trace.head.outcome
    words = trace.texts.get(root.error) if root is not None and root.error is not None else None
    if words is None and isinstance(outcome, Missing) and outcome.reason.startswith("infrastructure"):
        words = outcome.detail or outcome.reason
    return None if words is None else {"message": words, "traceback": "", "traceback_ansi": ""}


def _usage(trace: Trace) -> dict[str, JsonObject]:
    """Tokens by model, from the leaf model spans."""
    inner = inner_ids(trace.spans, frozenset({"model"}))
    sums: dict[str, Counter[str]] = {}
    for span in trace.spans:
        if span.kind == "model" and span.span_id not in inner and (counts := inspect_usage(span)):
            sums.setdefault(model_name(span), Counter()).update(counts)
    return {name: dict(counts) for name, counts in sums.items()}


def _scores(trace: Trace, lost: Counter[str]) -> tuple[dict[str, JsonObject], str]:
    """Labels as scores, the one that decides the outcome first, and its name."""
    scores: dict[str, JsonObject] = {}
    names = {label.name for label in trace.labels}
    for label in trace.labels:
        for field, said in (("at_ns", None), ("version", "1")):
            lost[f"label.{field}"] += getattr(label, field) != said
        name, _, key = label.name.rpartition(".")
        if key and name == label.by and name not in names and label.span_id is None:
            group = scores.setdefault(name, _score(trace, label, name, {}))
            if key not in group["value"]:  # one value of a score that has several
                group["value"][key] = label.value
                continue
        unique, count = label.name, 1
        while unique in scores:
            count += 1
            unique = f"{label.name} {count}"
        scores[unique] = _score(trace, label, unique, _NAN if label.value is None else label.value)
    outcome = trace.head.outcome
    if not isinstance(outcome, Scored):
        return scores, ""
    by = outcome.by or "outcome"
    if by in scores and grade(scores[by]["value"]) != outcome.value:
        by = f"{by} (outcome)"
    first = scores.pop(by, {"value": outcome.value, "metadata": {OWN: {"only": True}}})
    return {by: first, **scores}, by


def _score(trace: Trace, label: Label, name: str, value: Any) -> JsonObject:
    """A score; what a label says and a score cannot stands in its metadata."""
    own: JsonObject = {"by": label.by, "source": label.source} if (label.by, label.source) != (name, "import") else {}
    own |= {"name": label.name} if value != {} and label.name != name else {}
    own |= {"span_id": label.span_id} if label.span_id else {}
    why = None if label.why is None else trace.texts.get(label.why)
    score = {"value": value, "explanation": why, "metadata": {OWN: own} if own else None}
    return {k: v for k, v in score.items() if v is not None}


class _Header:
    """What the log says about all samples, gathered while they are written."""

    def __init__(self, task: str, model: str) -> None:
        self.summaries: list[JsonObject] = []
        self._names: dict[str, Counter[str]] = {"task": Counter(), "model": Counter(), "dataset": Counter()}
        self._given = {"task": task, "model": model}
        self._taken: set[tuple[str, int]] = set()
        self._usage: dict[str, Counter[str]] = {}
        self._grades: dict[str, list[float]] = {}
        self._times: list[int] = []
        self._traces: list[str] = []

    def epoch(self, trace: Trace, lost: Counter[str]) -> int:
        """The epoch of a sample: its attempt from one, or the next that is free."""
        epoch = max(trace.head.attempt, 0) + 1
        if (trace.head.task, epoch) in self._taken:
            lost["attempt (the epoch was taken)"] += 1
            while (trace.head.task, epoch) in self._taken:
                epoch += 1
        self._taken.add((trace.head.task, epoch))
        return epoch

    def add(self, trace: Trace, sample: JsonObject) -> None:
        """Count a sample in."""
        head = trace.head
        for name, seen in self._names.items():
            seen[as_name(head.meta.get(name))] += 1
        for name, counts in sample["model_usage"].items():
            self._usage.setdefault(name, Counter()).update(counts)
        for name, score in sample["scores"].items():
            number = None if score["value"] is _NAN else grade(score["value"])
            self._grades.setdefault(name, []).extend([] if number is None else [number])
        self._times.extend(t for t in (head.start_ns, head.end_ns) if t is not None)
        self._traces.append(head.trace_id)
        kept = ("id", "epoch", "target", "model_usage", "started_at", "completed_at", "total_time", "uuid")
        summary = {k: sample[k] for k in kept if k in sample}
        summary["input"] = sample["input"][:1000]
        summary["scores"] = {n: {"value": s["value"]} for n, s in sample["scores"].items()}
        summary |= {"completed": True, "message_count": len(sample["messages"])}
        if "error" in sample:
            summary["error"] = sample["error"]["message"][:1000]
        self.summaries.append(summary)

    def content(self) -> JsonObject:
        """The header."""
        key = digest("inspect", *self._traces)[3:25]
        model = self._name("model") or next(iter(self._usage), "none/none")
        task = self._name("task") or "ethogram"
        started = inspect_time(min(self._times)) if self._times else _UNDATED
        ids = list(dict.fromkeys(s["id"] for s in self.summaries))
        return {
            "version": 2,
            "status": "success",
            "eval": {
                **{"eval_id": key, "run_id": key, "created": started, "task": task, "task_id": key, "task_version": 0},
                "dataset": {
                    **{"name": self._name("dataset") or task, "samples": len(ids), "sample_ids": ids},
                    "shuffled": False,
                },
                "model": model,
                "config": {"epochs": max((s["epoch"] for s in self.summaries), default=1)},
                "packages": {},
            },
            "plan": {"name": "plan", "steps": [], "config": {}},
            "results": {
                "total_samples": len(self.summaries),
                "completed_samples": sum("error" not in s for s in self.summaries),
                "scores": [_mean(name, values) for name, values in self._grades.items()],
            },
            "stats": {
                "started_at": started,
                "completed_at": inspect_time(max(self._times)) if self._times else _UNDATED,
                "model_usage": {name: dict(counts) for name, counts in self._usage.items()},
            },
        }

    def _name(self, field: str) -> str:
        """What was given, or what all traces say."""
        seen = self._names[field]
        return self._given.get(field) or (next(iter(seen)) if len(seen) == 1 else "")


def _mean(name: str, values: list[float]) -> JsonObject:
    metrics = {"mean": {"name": "mean", "value": sum(values) / len(values), "params": {}}} if values else {}
    return {"name": name, "scorer": name, "scored_samples": len(values), "params": {}, "metrics": metrics}
