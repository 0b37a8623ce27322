"""Write what is derived from the code: reference pages, JSON schemas, and the output shown in the guides.

    python scripts/generate.py                writes all of it; runs only guide pages that are stale (`make docs`)
    python scripts/generate.py --all          the same, and runs every guide page (`make docs ALL=1`)
    python scripts/generate.py --reference    writes reference pages and schemas only, which takes seconds
    python scripts/generate.py --check        writes nothing; prints a diff and fails if a page or a schema is stale

scripts/stamps.py says when a guide page is stale.

The output shown in README.md and docs/guide is checked by tests/docs, which runs every page anyway.
"""

from __future__ import annotations

import ast
import contextlib
import difflib
import io
import json
import os
import sys
import tomllib
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

# before typer is imported: plain text, the same width and no colour on every machine
os.environ.update(TYPER_USE_RICH="0", COLUMNS="80", TERMINAL_WIDTH="80", NO_COLOR="1", TERM="dumb")
os.environ.pop("FORCE_COLOR", None)

import msgspec

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "ethogram"
NOTE = "<!-- Written by scripts/generate.py (make docs). Do not edit. -->\n"

DOCUMENTS: dict[str, tuple[str, ...]] = {
    "error": ("cli.failures:Failure",),
    "completion": ("cli.completion:CompletionScript",),
    "init": ("questions.home.starter:Started",),
    "run": ("harness.suites:RunResult", "harness.suites:RunPlan"),
    "score": ("questions.scoring.question:ScoreResult",),
    "cost": ("questions.cost.question:CostReport",),
    "stats": ("questions.reliability.question:ReliabilityResult",),
    "compare": ("questions.compare.question:CompareResult",),
    "gate": ("questions.gate.question:GateResult",),
    "why": ("questions.why.results:WhyResult",),
    "judge": ("questions.judging.results:JudgeResult", "questions.judging.results:PairwiseResult"),
    "label": ("questions.calibration.labels:LabelResult",),
    "calibrate": (
        "questions.calibration.question:CalibrationResult",
        "questions.calibration.audit:AuditResult",
        "questions.calibration.corrected_comparison:CorrectedComparison",
    ),
    "variance": ("questions.calibration.variance:VarianceResult",),
    "field": ("questions.field.results:FieldResult", "questions.field.results:StandardTable"),
    "plan": ("questions.gate.planning:PlanResult",),
    "report": ("viewer.report.report:ReportFile",),
    "perturb": (
        "questions.experiment.records:ExperimentResults",
        "questions.experiment.buying.experiment:ExperimentPlan",
    ),
    "fork": ("questions.fork.results:ForkResult",),
    "kill": ("questions.home.kill_switch:Killed",),
    "drill": ("questions.home.buying:Drill",),
    "replay": ("questions.replay.buying.replay:ReplayResult", "questions.replay.results:RedecideResult"),
    "explore": (
        "questions.explore.buying.rounds:ExploreResult",
        "questions.explore.race:RaceResult",
        "questions.explore.maps:ExplorationMap",
        "questions.explore.effects:Effects",
        "questions.explore.effects:Neighbours",
        "questions.explore.effects:Slice",
        "questions.explore.maps:MapFile",
    ),
    "golden": (
        "questions.golden.versions:GoldenResult",
        "questions.golden.versions:GoldenDiff",
        "questions.golden.question:GoldenCheck",
        "questions.golden.promotion:PromoteResult",
    ),
    "incident": ("questions.incident.records:IncidentResult", "questions.incident.records:IncidentList"),
    "import": ("questions.logs.imports:ImportResult",),
    "gateway": ("harness.serving:GatewayResult",),
    "mcp": ("wire.mcp.proxy:ProxyResult",),
    "serve": ("wire.receiver.serving:ServeResult",),
    "view": ("viewer.viewing:ViewResult",),
    "runs": ("questions.home.runs:RunList",),
    "show": ("questions.home.runs:RunSummary",),
    "trace": ("reading.traces:TraceTree",),
    "diff": ("questions.divergence.diff:DiffResult",),
    "divergence": ("questions.divergence.question:DivergenceResult",),
    "sql": ("questions.home.queries:QueryResult",),
    "export": ("questions.home.exports:ExportResult",),
    "operators": ("questions.experiment.operators:OperatorList",),
    "verify": ("questions.home.maintenance:VerifyResult",),
    "retain": ("questions.home.maintenance:RetainResult",),
    "keys": ("questions.home.maintenance:KeyList",),
    "token": ("questions.home.tokens:TokenList",),
    "redact": ("questions.logs.redaction:RedactionPreview",),
    "doctor": ("questions.home.maintenance:Health",),
    "rm": ("questions.home.runs:Removed",),
    "demo": ("worlds.demo:DemoResult", "worlds.demo:CopiedLogs"),
}
"""What `--json` prints, by verb: one record, or one of several."""
INFINITE = {"Estimate": ("value", "low", "high"), "Cause": ("lift",)}
"""Numbers that may be infinite, which JSON says in words."""


def main() -> int:
    os.environ["ETHOGRAM_PLUGINS"] = "off"  # a reference page lists only what the project has itself
    made = dict(generated())
    if "--check" in sys.argv[1:]:
        return check(made)
    for path, text in made.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    for path in stray(made):
        path.unlink()
    print(f"wrote {len(made)} files")
    if "--reference" in sys.argv[1:]:
        return 0
    sys.path.insert(0, str(Path(__file__).parent))
    from stamps import renew

    renew(every="--all" in sys.argv[1:])
    return 0


def check(made: dict[Path, str]) -> int:
    """Compare what is there with what would be written."""
    stale = False
    for path, text in made.items():
        name = str(path.relative_to(ROOT))
        there = path.read_text(encoding="utf-8") if path.is_file() else ""
        if there != text:
            stale = True
            lines = difflib.unified_diff(there.splitlines(True), text.splitlines(True), name, f"{name} (generated)")
            sys.stdout.writelines(lines)
    for path in stray(made):
        stale = True
        print(f"{path.relative_to(ROOT)}: nothing generates this file")
    if stale:
        print("generated files are stale; renew them with: make docs", file=sys.stderr)
    return 1 if stale else 0


def stray(made: dict[Path, str]) -> list[Path]:
    """Files in generated folders that nothing generates any more."""
    folders = (ROOT / "docs" / "reference", PACKAGE / "schemas")
    return [p for folder in folders for p in sorted(folder.rglob("*")) if p.is_file() and p not in made]


def generated() -> Iterator[tuple[Path, str]]:
    """Every generated file and its text."""
    reference = ROOT / "docs" / "reference"
    yield reference / "cli.md", cli_page()
    yield reference / "formats.md", formats_page()
    yield reference / "tables.md", tables_page()
    yield reference / "errors.md", errors_page()
    sys.path.insert(0, str(Path(__file__).parent))
    from api import api_page
    from metric_pages import metric_files
    from typescript import models_text

    yield reference / "api.md", f"{NOTE}\n{api_page()}"
    yield from metric_files(NOTE)

    yield ROOT / "web" / "src" / "models.ts", models_text(structs)
    for verb in documented():
        yield PACKAGE / "schemas" / f"{verb}.json", json.dumps(schema(verb), indent=2) + "\n"


def documented() -> list[str]:
    """The verbs whose `--json` has a schema: all of them, but the one that only prints a script."""
    from ethogram.cli.main import VERBS

    verbs = {v.name for v in VERBS} | {"error"}  # what every verb prints instead of an answer
    if verbs != DOCUMENTS.keys():
        odd = ", ".join(sorted(verbs ^ DOCUMENTS.keys()))
        raise SystemExit(f"DOCUMENTS in scripts/generate.py and the verbs of the command line disagree about: {odd}")
    return list(DOCUMENTS)


# -- the command line --------------------------------------------------------------------------------------------------


def cli_page() -> str:
    """`--help` of the top level, of every verb and of every sub-command."""
    from ethogram.cli.main import VERBS, verb_paths

    parts = [NOTE, "# The command line\n", f"```text\n{help_text([])}\n```\n"]
    parts.append(
        "Every `--json` document has a JSON Schema in `ethogram/schemas/<verb>.json`, shipped with the package.\n"
    )
    for verb in VERBS:
        for path in verb_paths(verb):
            mark = "##" if path == verb.name else "###"
            parts.append(f"{mark} ethogram {path}\n\n```text\n{help_text(path.split())}\n```\n")
    return "\n".join(parts)


def help_text(verb: list[str]) -> str:
    """What `ethogram VERB --help` prints, as plain text."""
    from ethogram.cli.main import run_verb

    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        code = run_verb([*verb, "--help"])
    if code != 0:
        raise SystemExit(f"ethogram {' '.join(verb)} --help failed with {code}")
    return "\n".join(line.rstrip() for line in out.getvalue().strip().splitlines())


# -- formats -----------------------------------------------------------------------------------------------------------


def formats_page() -> str:
    """Formats that are read and written, from the first paragraph of each module's docstring."""
    from ethogram.capture.readers import MODULES
    from ethogram.questions.home.exports import FORMATS

    readers = PACKAGE / "capture" / "readers"
    writers = PACKAGE / "capture" / "writers"
    lines = [
        NOTE,
        "# Formats\n",
        "The format of a log is recognised by its content, never by its name; `--format` says it when you know better.",
        "Plain files, `.gz`, `.xz`, `.zst`, `.zip`, `.tar`, folders and standard input are read.\n",
        "## Read\n",
        "| `--format` | what it is |\n|---|---|",
        *(f"| `{name}` | {about(readers / f'{module}.py')} |" for name, module in MODULES.items()),
        "\n## Written\n",
        "| `--to` | what it is |\n|---|---|",
    ]
    tables = {
        "parquet": "Episodes, spans, texts and labels as one Parquet file each.",
        "csv": "The same four tables as CSV; cells that a spreadsheet would run as a formula are quoted.",
    }
    for name in FORMATS:
        lines.append(f"| `{name}` | {tables.get(name) or about(writers / f'{name}.py')} |")
    return "\n".join(lines) + "\n"


def about(module: Path) -> str:
    """The first paragraph of a module's docstring, fit for a table."""
    if not module.is_file():
        raise SystemExit(f"{module.relative_to(ROOT)} does not exist, but its format is listed")
    text = ast.get_docstring(ast.parse(module.read_text(encoding="utf-8"))) or ""
    first = " ".join(text.split("\n\n")[0].split())
    if not first:
        raise SystemExit(f"{module.relative_to(ROOT)} has no docstring")
    return first.replace("|", "\\|")


# -- tables ------------------------------------------------------------------------------------------------------------


def tables_page() -> str:
    """Views and columns of the lake, with the types that a query sees."""
    from ethogram.measures.metrics import METRICS
    from ethogram.questions.home.queries import MORE_VIEWS
    from ethogram.store import Lake

    lake = Lake([], MORE_VIEWS)
    meanings = tomllib.loads((ROOT / "scripts" / "columns.toml").read_text(encoding="utf-8"))
    if set(meanings) != set(lake.views):
        raise SystemExit(f"scripts/columns.toml explains {sorted(meanings)}, the lake has {sorted(lake.views)}")
    lines = [
        NOTE,
        "# Tables\n",
        "What `ethogram sql` and `ethogram.sql` can ask. Only committed episodes are there, and no superseded trace.",
    ]
    for view in lake.views:
        known = meanings[view]
        if view == "metrics":
            known |= {kind.name: f"{kind.formula} ({kind.unit})" for kind in METRICS.values()}
        columns = lake.sql(f"SELECT * FROM {view} LIMIT 0").schema
        if set(known) - {"_about"} != set(columns.names):
            odd = sorted((set(known) - {"_about"}) ^ set(columns.names))
            raise SystemExit(f"scripts/columns.toml and the view {view} disagree about: {', '.join(odd)}")
        lines += [f"\n## {view}\n", known["_about"] + "\n", "| column | type | meaning |\n|---|---|---|"]
        lines += [f"| `{c.name}` | {type_name(c.type)} | {known[c.name]} |" for c in columns]
    return "\n".join(lines) + "\n"


def type_name(kind: Any) -> str:
    """A column's type as Arrow calls it; of a list, what it holds."""
    return f"list of {kind.value_type}" if hasattr(kind, "value_type") else str(kind)


# -- errors ------------------------------------------------------------------------------------------------------------


def errors_page() -> str:
    """The tree of errors, as the module draws it, and each error with its exit code."""
    from ethogram import errors

    first, _, rest = (errors.__doc__ or "").partition("\n\n")
    tree, _, after = rest.partition("\n\n")
    lines = [NOTE, "# Errors\n", first + "\n", f"```text\n{tree}\n```\n", " ".join(after.split()) + "\n"]
    lines += ["| error | exit code | meaning |", "|---|---|---|"]
    for name, kind in vars(errors).items():
        if isinstance(kind, type) and issubclass(kind, errors.EthogramError):
            if name not in tree:
                raise SystemExit(f"errors.py does not draw {name} in its tree")
            meaning = (kind.__doc__ or "").splitlines()[0]
            lines.append(f"| `{name}` | {kind.exit_code} | {meaning} |")
    lines.append("\nThe command line also returns 130 when it is stopped (Ctrl-C); what was committed is kept.")
    lines += ["\n## Under `--json`\n", _failure_words()]
    return "\n".join(lines) + "\n"


def _failure_words() -> str:
    from ethogram.cli.failures import Failure

    what = " ".join((Failure.__doc__ or "").split())
    return (
        "A verb that cannot answer prints one document on stdout all the same (schema `ethogram/schemas/error.json`); "
        "the sentence stands on stderr and the exit code is the same as without `--json`.\n\n"
        f"{what}\n\nFields: {', '.join(f'`{name}`' for name in Failure.__struct_fields__)}."
    )


# -- schemas -----------------------------------------------------------------------------------------------------------


def closed_sets() -> dict[tuple[str, str], tuple[str, ...]]:
    """Fields that hold words of a closed set, by record and field; of a mapping, its keys do."""
    from typing import get_args

    from ethogram.capture.readers import MODULES
    from ethogram.questions.home.exports import FORMATS
    from ethogram.store.redact import FIELDS
    from ethogram.traces import KINDS, REASONS, Status

    formats = tuple(MODULES)
    return {
        ("ImportResult", "format"): (*formats, "mixed"),
        ("ImportResult", "formats"): formats,
        ("SourceReport", "format"): formats,
        ("RunSummary", "formats"): (*formats, "run"),
        ("RunSummary", "missing"): REASONS,
        ("RunResult", "missing"): REASONS,
        ("ScoreResult", "missing"): REASONS,
        ("TaskRow", "missing"): REASONS,
        ("EpisodeRow", "missing"): REASONS,
        ("TraceTree", "missing"): REASONS,
        ("CostReport", "missing"): REASONS,
        ("CostEpisode", "missing"): REASONS,
        ("SpanRow", "kind"): KINDS,
        ("SpanRow", "status"): get_args(Status),
        ("ExportResult", "format"): FORMATS,
        ("Found", "field"): FIELDS,
    }


def schema(verb: str) -> dict[str, Any]:
    """The JSON Schema of what a verb prints with `--json`."""
    kinds = [load(name) for name in DOCUMENTS[verb]]
    refs, parts = msgspec.json.schema_components(kinds, ref_template="#/$defs/{name}")
    for name, part in parts.items():
        part["description"] = " ".join(part.get("description", "").split())
        properties = part["properties"]
        if "schema_version" in properties:
            properties["schema_version"] = {"const": properties["schema_version"]["default"]}
        for field in INFINITE.get(name, ()):
            properties[field]["anyOf"].append({"enum": ["inf", "-inf"]})
        for (record, field), values in closed_sets().items():
            if record == name:
                properties[field] = close(properties[field], values)
    for kind in structs(kinds):
        if not kind.__struct_config__.omit_defaults:  # such a record always says everything
            part = parts[kind.__name__]
            part["required"] = list(part["properties"])
    head = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"ethogram {verb} --json",
        "$defs": dict(sorted(parts.items())),
    }
    return {**head, **(refs[0] if len(refs) == 1 else {"anyOf": list(refs)})}


def load(name: str) -> type:
    module, _, attribute = name.partition(":")
    found: type = getattr(import_module(f"ethogram.{module}"), attribute)
    return found


def close(prop: dict[str, Any], values: tuple[str, ...]) -> dict[str, Any]:
    """A property that only takes these words (or null, where it may be absent); of a mapping, its keys."""
    words = {"enum": list(values)}
    if prop.get("type") == "object":
        return {**prop, "propertyNames": words}
    if "anyOf" in prop:
        return {**prop, "anyOf": [words if one == {"type": "string"} else one for one in prop["anyOf"]]}
    if prop.get("type") != "string":
        raise SystemExit(f"only words can be of a closed set, not {prop}")
    return {k: v for k, v in prop.items() if k != "type"} | words


def structs(kinds: list[type]) -> list[Any]:
    """All records that these records hold."""
    found: dict[str, Any] = {}
    waiting: list[Any] = list(msgspec.inspect.multi_type_info(kinds))
    while waiting:
        info = waiting.pop()
        if isinstance(info, msgspec.inspect.StructType):
            if info.cls.__name__ in found:
                continue
            found[info.cls.__name__] = info.cls
            waiting += [f.type for f in info.fields]
        for name in ("item_type", "key_type", "value_type"):
            if hasattr(info, name):
                waiting.append(getattr(info, name))
        for name in ("types", "item_types"):
            waiting += list(getattr(info, name, ()))
    return list(found.values())


if __name__ == "__main__":
    sys.exit(main())
