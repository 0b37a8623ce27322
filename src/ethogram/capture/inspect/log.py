"""What an Inspect log says about all of its samples: who ran, with what settings, scored by whom."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from ethogram.capture.parse import as_dict, as_int, as_list, as_name, to_json

_SHORT = 2000
_EVAL_FIELDS = ("task", "model", "run_id", "eval_id", "eval_set_id", "task_id", "task_version", "created", "sandbox")


class Log(msgspec.Struct):
    """The header of a log, read once for its samples."""

    status: str
    agent: str
    seed: int | None
    model: str
    key: str
    scorers: list[str]
    claimed: int | None
    meta: dict[str, Any]


def read_log(header: dict[str, Any], lose: Callable[[str], None]) -> Log:
    """The log behind a header, whole or the start record of a run that crashed."""
    spec, plan = as_dict(header.get("eval")), as_dict(header.get("plan"))
    results = as_dict(header.get("results"))
    config = {**as_dict(plan.get("config")), **as_dict(spec.get("model_generate_config"))}
    config = {k: v for k, v in config.items() if v is not None}
    steps = [as_name(as_dict(s).get("solver")) for s in as_list(plan.get("steps"))]
    if any(as_dict(as_dict(step).get("params")).get("tools") for step in as_list(plan.get("steps"))):
        lose("plan.steps.params.tools")
    agent = as_name(spec.get("solver")) or "+".join(s for s in steps if s)
    status = as_name(header.get("status")) or "started"
    meta: dict[str, Any] = {k: spec.get(k) for k in _EVAL_FIELDS if spec.get(k) not in (None, "")}
    meta |= {
        "status": status,
        "error": as_dict(header.get("error")).get("message"),
        "dataset": as_dict(spec.get("dataset")).get("name"),
        "solver": agent or None,
        "inspect_version": as_dict(spec.get("packages")).get("inspect_ai"),
        "commit": as_dict(spec.get("revision")).get("commit"),
        "results": _metrics(results) or None,
        **config,
    }
    for name in ("task_args", "solver_args", "model_args"):
        meta[name] = as_dict(spec.get(name)) or None
    for name in ("tags", "metadata"):
        meta[f"log_{name}"] = header.get(name) or spec.get(name) or None
    return Log(
        status=status,
        agent=agent,
        seed=as_int(config.get("seed")),
        model=as_name(spec.get("model")),
        key=as_name(spec.get("eval_id"))
        or "/".join(filter(None, (as_name(spec.get(k)) for k in ("run_id", "task_id")))),
        scorers=_scorers(spec, results),
        claimed=as_int(results.get("total_samples")),
        meta={k: v for k, v in meta.items() if v is not None and not _too_long(k, v, lose)},
    )


def _scorers(spec: dict[str, Any], results: dict[str, Any]) -> list[str]:
    """Names of scores in the order of the header: results first, then what was planned."""
    names: list[str] = []
    scores = as_list(results.get("scores")) or [results.get("scorer")]
    for score in (*scores, *as_list(spec.get("scorers"))):
        names.extend(as_name(as_dict(score).get(k)) for k in ("scorer", "name"))
    return list(dict.fromkeys(n for n in names if n))


def _metrics(results: dict[str, Any]) -> dict[str, Any]:
    """Metrics of each score as the log states them."""
    found = {}
    for score in as_list(results.get("scores")):
        score = as_dict(score)
        name = as_name(score.get("name"))
        if score.get("reducer"):
            name = f"{name}/{as_name(score['reducer'])}"
        found[name] = {k: as_dict(m).get("value") for k, m in as_dict(score.get("metrics")).items()}
    return found


def _too_long(name: str, value: Any, lose: Callable[[str], None]) -> bool:
    """Whether a value would not fit the head of a trace, which stays short."""
    try:
        fits = isinstance(value, bool | int | float) or len(to_json(value)) <= _SHORT
    except RecursionError:
        fits = False
    if not fits:
        lose(f"{name} (too long)")
    return not fits
