"""Judges as the command line names them: `rule`, `model:NAME@URL`, `panel:A,B,C`, `fixed:yes` or `fixed:FILE.csv`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from ethogram.errors import BadUsage
from ethogram.findings.rubric import Rubric
from ethogram.questions.judging.judges import FixedJudge, Judge, PanelJudge
from ethogram.questions.judging.modeljudge import AskModel, ModelJudge, ModelSettings
from ethogram.questions.judging.rulejudge import RuleJudge
from ethogram.reading.label_rows import csv_rows

from .calls import Endpoint

Connect = Callable[[str, Endpoint], AskModel]
"""From a model and where it is to what asks it."""
_FORMS = "rule, model:NAME, model:NAME@URL, panel:JUDGE,JUDGE,…, fixed:yes, fixed:no, fixed:FILE.csv"
_WORDS = {"yes": True, "no": False, "true": True, "false": False, "1": True, "0": False}


def judge_named(spec: str, settings: ModelSettings, rubric: Rubric, connect: Connect) -> Judge:
    """The judge that a text names; raises `BadUsage` for one that makes no sense.

    `settings` are those of models but for the name; `connect` is called for each model that is named.

    Example: `judge_named("panel:rule,model:gpt-4.1@http://127.0.0.1:8000/v1", settings, rubric, connect)`
    """
    kind, _, rest = spec.partition(":")
    if kind == "rule" and not rest:
        return RuleJudge()
    if kind == "fixed" and rest:
        return _fixed(rest, rubric)
    if kind == "model" and rest:
        name, endpoint = model_at(rest)
        own = msgspec.structs.replace(settings, model=name, protocol=endpoint.protocol)
        return ModelJudge(own, connect(name, endpoint))
    if kind == "panel" and rest:
        members = [judge_named(part.strip(), settings, rubric, connect) for part in rest.split(",") if part.strip()]
        if len(members) < 2:
            raise BadUsage(f"a panel needs at least two judges, not {spec!r}; write panel:rule,model:NAME")
        return PanelJudge(members)
    raise BadUsage(f"there is no judge {spec!r}; judges are: {_FORMS}")


def model_at(text: str) -> tuple[str, Endpoint]:
    """`NAME@URL` or `NAME`: the API is Anthropic's for its own address and for its models, else OpenAI's."""
    name, at, address = text.partition("@")
    if not name or (at and not address):
        raise BadUsage(f"{text!r} names no model; write NAME@URL, such as gpt-4.1@http://127.0.0.1:8000/v1")
    parts = urlsplit(address)
    if address and (parts.scheme not in ("http", "https") or not parts.hostname):
        raise BadUsage(f"{address!r} is not an address; give one such as http://127.0.0.1:8000/v1")
    if parts.username or parts.password:
        raise BadUsage("the address of the judge holds a name or a password; set ETHOGRAM_JUDGE_API_KEY instead")
    anthropic = "anthropic" in (parts.hostname or "") or address.rstrip("/").endswith("/messages")
    if not anthropic and not (not address and name.rpartition("/")[2].startswith("claude")):
        return name, Endpoint("openai-chat", address.rstrip("/").removesuffix("/chat/completions") or None)
    return name, Endpoint(
        "anthropic-messages", address.rstrip("/").removesuffix("/messages").removesuffix("/v1") or None
    )


def _fixed(rest: str, rubric: Rubric) -> FixedJudge:
    if rest in ("yes", "no"):
        return FixedJudge(rest == "yes")
    if rest == "unknown":
        return FixedJudge(None)
    known: dict[tuple[str, str, int | None], bool] = {}
    names = {item.name for item in rubric.items}
    for where, row in csv_rows(Path(rest)):
        item, value, step = row.get("item") or row.get("name", ""), row["value"].lower(), row.get("step", "")
        item = item.removeprefix("rubric/")
        trace = row.get("trace", "").removeprefix("b2:")
        if not value:
            continue
        if item not in names or value not in _WORDS or not trace or (step and not step.isdecimal()):
            raise BadUsage(
                f"{where}: a verdict needs trace, item ({', '.join(sorted(names))}), value (yes or no), step"
            )
        known[trace, item, int(step) if step else None] = _WORDS[value]
    return FixedJudge(None, known, name=Path(rest).stem)
