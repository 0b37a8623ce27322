"""The reference page of `import ethogram as eth`: signature, docstring, answer and example of every name.

Examples are in api_examples.py, which tests run.
"""

from __future__ import annotations

import inspect
import re
import typing
from pathlib import Path
from typing import Any

GROUPS = {
    "Bring runs in": ("import_logs", "run", "Suite", "Task", "load", "Trace"),
    "Look": ("runs", "show", "trace", "sql", "report", "export"),
    "Ask": ("stats", "Estimate", "field", "Field", "Dimension", "why", "diff", "divergence", "cost", "variance"),
    "Decide": ("compare", "gate", "plan"),
    "Judge": ("score", "judge", "label", "calibrate"),
    "Change something": ("Experiment", "explore", "replay", "fork"),
    "Keep": ("golden", "incident", "verify", "retain", "rm"),
    "In an agent": ("tool", "span", "from_langgraph"),
    "Errors": ("EthogramError",),
}
NO_EXAMPLE = {"fork": "it needs an agent whose model calls pass the gateway; see the guide on forks"}
HEAD = """# Python

`import ethogram as eth` gives these names; each is imported when it is first used. `eth.VERB(…)` answers what the
command `ethogram VERB` answers; `import` is a keyword of Python, so it is `eth.import_logs`. What plug-ins need is in
`ethogram.extend`. The examples are parts of one program, `scripts/api_examples.py`, which tests run.

An answer is a record: its fields are listed below its function. A notebook shows it as a table with bars, a console in
at most ten lines. `to_df()` gives its rows as a data frame (extra `df`), `plot()` a picture (extra `charts`),
`to_json()` the document that `--json` prints.
"""


def api_page() -> str:
    """The page; refuses a name that no group has, and one without an example or a reason."""
    import ethogram as eth

    names = [name for group in GROUPS.values() for name in group]
    odd = set(names) ^ (set(eth.__all__) - {"__version__"}) | {n for n in names if names.count(n) > 1}
    if odd:
        raise SystemExit(f"GROUPS in scripts/api.py and ethogram.__all__ disagree about: {', '.join(sorted(odd))}")
    shown = examples()
    if lacking := set(names) ^ (set(shown) | set(NO_EXAMPLE)):
        raise SystemExit(f"scripts/api_examples.py and the names disagree about: {', '.join(sorted(lacking))}")
    lines = [HEAD]
    for group, members in GROUPS.items():
        lines.append(f"## {group}\n")
        lines += [entry(name, getattr(eth, name), shown.get(name)) for name in members]
    return "\n".join(lines)


def examples() -> dict[str, str]:
    """The blocks of api_examples.py by name."""
    text = Path(__file__).with_name("api_examples.py").read_text(encoding="utf-8")
    parts = re.split(r"^# == (\w+)\n", text, flags=re.MULTILINE)[1:]
    return {name: code.strip() for name, code in zip(parts[::2], parts[1::2], strict=True)}


def entry(name: str, thing: Any, example: str | None) -> str:
    """One name: signature, words, what it gives, an example."""
    lines = [f"### eth.{name}\n"]
    if not (inspect.isclass(thing) and issubclass(thing, Exception)):
        lines.append(f"```python\n{signature(name, thing)}\n```\n")
    lines.append(words(inspect.getdoc(thing) or "") + "\n")
    if inspect.isclass(thing):
        lines += members(thing)
    elif answer := gives(thing):
        lines.append(answer + "\n")
    if example:
        lines.append(f"```python\n{example}\n```\n")
    else:
        lines += [f"Not run here: {NO_EXAMPLE[name]}.\n"]
    return "\n".join(lines)


def signature(name: str, thing: Any) -> str:
    """The call as one writes it, one parameter a line where it is long."""
    found = inspect.signature(thing)
    parts = [plain(str(p)) for p in found.parameters.values() if p.name != "self"]
    kinds = [p.kind for p in found.parameters.values() if p.name != "self"]
    if inspect.Parameter.KEYWORD_ONLY in kinds:
        parts.insert(kinds.index(inspect.Parameter.KEYWORD_ONLY), "*")
    back = plain(str(found.return_annotation))
    after = (
        f" -> {back}" if found.return_annotation is not inspect.Signature.empty and not inspect.isclass(thing) else ""
    )
    line = f"eth.{name}({', '.join(parts)}){after}"
    if len(line) <= 100:
        return line
    return f"eth.{name}(\n" + "".join(f"    {part},\n" for part in parts) + f"){after}"


def plain(annotation: str) -> str:
    """Annotations without quotes and without the modules of their names; defaults that are records by their name."""
    bare = re.sub(r"(?<=[:>] )'([^']*)'", r"\1", annotation)
    bare = bare.strip("'") if bare.startswith("'") else bare
    bare = re.sub(r"\b(?:ethogram|typing|collections|pathlib)\.(?:\w+\.)*", "", bare)
    return re.sub(r"= \(?([A-Z]\w+)\(.*\)$", r"= \1(…)", bare).replace("<factory>", "…")


def words(docstring: str) -> str:
    """A docstring as Markdown: doctests and their output as a block, `Args:` and `Raises:` as they are."""
    text = re.sub(
        r"((?:^(?:>>>|\.\.\.).*\n?)+(?:^(?!>>>|\.\.\.|\s*$).*\n?)*)", r"```text\n\1\n```", docstring, flags=re.M
    )
    text = re.sub(r"\n+```$", "\n```", text, flags=re.M)
    return re.sub(r"^(Args|Raises|Returns|Gives):\n((?:    .*\n?)+)", _listed, text, flags=re.M)


def _listed(found: re.Match[str]) -> str:
    joined = re.sub(r"\n     +", " ", found[2])  # what is indented further goes on
    items = [line.strip() for line in joined.splitlines()]
    return f"{found[1]}:\n\n" + "\n".join(f"- {item}" for item in items) + "\n"


def gives(function: Any) -> str:
    """What a function answers with, and the fields of that record."""
    import msgspec

    answer = typing.get_type_hints(function).get("return")
    if not (inspect.isclass(answer) and issubclass(answer, msgspec.Struct)):
        return ""
    fields = ", ".join(f"`{name}`" for name in answer.__struct_fields__ if name != "schema_version")
    return f"Answers with `{answer.__name__}` ({answer.__module__}): {fields}."


def members(kind: type) -> list[str]:
    """Public methods and properties of a class, by the first line of what they say."""
    rows = []
    for name, member in inspect.getmembers(kind):
        own = any(name in vars(k) for k in kind.__mro__ if k.__module__.startswith("ethogram."))
        said = inspect.getdoc(member)
        described = (
            inspect.isfunction(member) or inspect.ismethod(member) or hasattr(member, "fget") or hasattr(member, "func")
        )
        if own and not name.startswith("_") and described and said:
            call = "()" if inspect.isroutine(member) else ""
            rows.append(f"| `{name}{call}` | {said.splitlines()[0].replace('|', chr(92) + '|')} |")
    return ["| member | |\n|---|---|\n" + "\n".join(rows) + "\n"] if rows else []
