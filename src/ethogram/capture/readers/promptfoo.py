"""Results of promptfoo: what `promptfoo eval -o out.json` (or `.jsonl`) and `promptfoo export` write.

One trace per test, prompt and provider: the prompt, the output, tokens and cost. The provider is the agent, the prompt
the condition. The outcome is promptfoo's own `success`; its score and every assertion are labels. A test that ended in
an error of the provider has no outcome, as in promptfoo's own counts. Written from files of promptfoo itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ethogram.capture.builder import TraceBuilder
from ethogram.capture.draft import PayloadWords
from ethogram.capture.intake import Intake
from ethogram.capture.parse import as_dict, as_float, as_int, as_list, as_name, as_text, to_json
from ethogram.capture.peek import Peek
from ethogram.capture.records import objects, records
from ethogram.capture.source import Source
from ethogram.traces import Missing, Outcome, Scored, cut_whole, digest

from ._graded import NAME, add_exchange, add_grades, short_name
from ._shared import as_object, infrastructure

FORMAT = "promptfoo"
_ROW = {"provider", "prompt", "success", "testCase"}
_ERROR = 2
MARKS = frozenset(["results", "testCase"])


def sniff(peek: Peek) -> int:
    """Rows with a provider, a prompt, a test case and a grading."""
    first = peek.first
    if isinstance(first.get("results"), dict):
        rows = as_list(as_dict(first["results"]).get("results"))
        return 95 if rows and as_dict(rows[0]).keys() >= _ROW else 0
    return 95 if first.keys() >= _ROW and "vars" in first else 0


def read(source: Source, intake: Intake) -> None:
    """One trace per row."""
    for where, document in objects(records(source, intake), intake):
        providers = map(as_dict, as_list(as_dict(document.get("config")).get("providers")))
        intake.lose(
            "config.providers.config.tools", sum(bool(as_dict(p.get("config")).get("tools")) for p in providers)
        )
        for place, row in _rows(where, document):
            with intake.record(place):
                _read_row(as_object(row, "the result"), intake)


def _rows(where: str, document: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    if "results" not in document:
        yield where, document
        return
    for number, row in enumerate(as_list(as_dict(document["results"]).get("results"))):
        yield f"result {number}", row


def _read_row(row: dict[str, Any], intake: Intake) -> None:
    if not row.keys() & _ROW:
        raise ValueError("no provider, prompt or test case in it")
    case, prompt, provider = as_dict(row.get("testCase")), as_dict(row.get("prompt")), as_dict(row.get("provider"))
    variables = row.get("vars", case.get("vars"))
    agent = as_name(provider.get("label") or provider.get("id"))
    task = as_name(case.get("description")) or (PayloadWords(to_json(variables)) if variables else "test")
    name = as_name(row.get("id"))  # JSON lines have none
    asked = short_name(task) if isinstance(task, PayloadWords) else task
    key = name or f"{agent}/{_prompt_key(prompt)}/{asked}/{row.get('testIdx')}"
    with intake.trace(key, worldwide=bool(name)) as trace:
        trace.task, trace.agent, trace.condition = task, agent, _prompt_name(prompt)
        trace.outcome = _outcome(row)
        seconds = as_float(row.get("latencyMs"))
        trace.meta = {
            **{k: v for k, v in as_dict(row.get("metadata")).items() if not k.startswith("_")},
            "vars": to_json(variables) if variables else None,
            "seconds": None if seconds is None else seconds / 1000,
        }
        _add_answer(trace, row, prompt, provider)
        _add_assertions(trace, row)


def _prompt_name(prompt: dict[str, Any]) -> str:
    """The label of a prompt; one that is the prompt itself is named by its words."""
    label = as_name(prompt.get("label"))
    return PayloadWords(label) if label == prompt.get("raw") or len(label) > NAME else label


def _prompt_key(prompt: dict[str, Any]) -> str:
    """What stands for a prompt in the id of an episode, which is a hash itself."""
    label = as_name(prompt.get("label"))
    return label if len(label) <= NAME and "\n" not in label else f"prompt {digest(label).partition(':')[2][:8]}"


def _outcome(row: dict[str, Any]) -> Outcome:
    if as_int(row.get("failureReason")) == _ERROR:
        error = as_text(row.get("error"))
        return infrastructure(error) or Missing("infrastructure.other", cut_whole(error, 300))
    success = row.get("success")
    return Scored(float(success), FORMAT) if isinstance(success, bool) else Missing("unscored")


def _add_answer(trace: TraceBuilder, row: dict[str, Any], prompt: dict[str, Any], provider: dict[str, Any]) -> None:
    response = as_dict(row.get("response"))
    usage = as_dict(response.get("tokenUsage") or row.get("tokenUsage"))
    read, whole = as_int(usage.get("cached")), as_int(usage.get("prompt"))
    add_exchange(
        trace,
        prompt.get("raw"),
        response.get("output"),
        model=as_name(provider.get("id")) or None,
        input_tokens=whole,
        cache_read_tokens=read if whole is None and read else None,  # answered from promptfoo's own cache
        output_tokens=as_int(usage.get("completion")),
        cost_usd=as_float(response.get("cost", row.get("cost"))),
    )


def _add_assertions(trace: TraceBuilder, row: dict[str, Any]) -> None:
    grading = as_dict(row.get("gradingResult"))
    trace.label("score", as_float(row.get("score")), by=FORMAT, why=as_text(grading.get("reason")) or None)
    add_grades(
        trace,
        (
            {
                "name": as_dict(part.get("assertion")).get("metric") or as_dict(part.get("assertion")).get("type"),
                "value": part.get("pass"),
                "why": part.get("reason"),
            }
            for part in map(as_dict, as_list(grading.get("componentResults")))
        ),
        FORMAT,
    )
