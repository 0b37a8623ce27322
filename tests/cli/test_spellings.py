"""One spelling per option: a name means one thing in every verb, and a thing has one name."""

from __future__ import annotations

from collections.abc import Iterator
from inspect import signature
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import pytest

import ethogram
from ethogram.cli.main import VERBS, verb_app, verb_paths
from ethogram.cli.spellings import RENAMED, RENAMED_IN

SAME_HELP = ("--json", "--home", "--workers", "--against", "--yes", "--price", "--prices", "--env")
"""Options whose help is one text, whatever the verb."""

OTHER_HELP = {("diff", "--against"), ("judge", "--workers")}
"""What differs: `diff` looks for a trace, so its --against says where; `judge` runs no episodes."""

SHORT = {"--out": {"--out", "-o"}, "--yes": {"--yes", "-y"}, "-k": {"-k"}}
"""Every spelling of an option that has a short one."""

SYNONYMS = (
    ("--run", "--name", "--run-name"),
    ("--against", "--baseline", "--base", "--other", "--other-run"),
    ("--workers", "--max-concurrency", "--concurrency", "--jobs", "--processes"),
    ("--score", "--scorer"),
    ("--out", "--output", "--csv"),
    ("--limit", "--top", "--rows", "--max-rows"),
    ("--seed", "--random-seed"),
)
"""The first of each row is the spelling; no verb may have one of the others."""


class Option:
    """An option of a verb or a sub-command, as its signature declares it."""

    def __init__(self, verb: str, parameter: str, kind: Any, info: Any) -> None:
        self.verb, self.info = verb, info
        # inside Annotated, the first word given to typer.Option stands where a default would
        words = [word for word in (info.default, *(info.param_decls or ())) if isinstance(word, str)]
        declared = [part for word in words for part in word.split("/")]
        self.names = declared or [f"--{parameter.replace('_', '-')}"]
        self.kind = value_type(kind)


def value_type(kind: Any) -> Any:
    """The type of one value: without None, without the list of a repeatable option, text for a closed set."""
    if get_origin(kind) in (Union, UnionType):
        (kind,) = (k for k in get_args(kind) if k is not NoneType)
    if get_origin(kind) is list:
        (kind,) = get_args(kind)
    return str if get_origin(kind) is Literal else kind


def options() -> Iterator[Option]:
    for verb in VERBS:
        commands = verb_app(verb).registered_commands
        for path, command in zip(verb_paths(verb)[-len(commands) :], commands, strict=True):
            for name, hint in get_type_hints(command.callback, include_extras=True).items():
                if get_origin(hint) is Annotated and type(get_args(hint)[1]).__name__ == "OptionInfo":
                    yield Option(path, name, *get_args(hint))


OPTIONS = list(options())
NAMES = {name for option in OPTIONS for name in option.names}


def test_there_are_options_to_hold():
    assert {"--run", "--against", "--workers", "--score", "-k", "--seed", "--limit", "--json", "--home", "-o"} <= NAMES


@pytest.mark.parametrize("name", sorted(NAMES))
def test_a_name_has_one_type(name):
    kinds = {option.verb: option.kind for option in OPTIONS if name in option.names}
    assert len(set(kinds.values())) == 1, kinds


@pytest.mark.parametrize("name", SAME_HELP)
def test_a_shared_option_is_explained_alike(name):
    helps = {option.info.help for option in OPTIONS if name in option.names and (option.verb, name) not in OTHER_HELP}
    assert len(helps) == 1, helps


@pytest.mark.parametrize("name", SHORT)
def test_short_spellings_are_alike(name):
    assert all(set(option.names) == SHORT[name] for option in OPTIONS if name in option.names)


@pytest.mark.parametrize("row", SYNONYMS, ids=lambda row: row[0])
def test_a_thing_has_one_name(row):
    assert row[0] in NAMES
    assert not NAMES & set(row[1:])


OLD = [
    (option.verb, old, new)
    for option in OPTIONS
    for old, new in {**RENAMED, **RENAMED_IN.get(option.verb.split()[0], {})}.items()
    if new in option.names
]


def test_every_old_spelling_is_tried():
    assert {old for _, old, _ in OLD} == set(RENAMED) | {old for table in RENAMED_IN.values() for old in table}


@pytest.mark.parametrize(("verb", "old", "new"), OLD)
def test_an_old_spelling_is_refused_with_the_new_one(call, verb, old, new):
    for words in (["a", "b", old, "c"], [f"{old}=c"]):
        said = call(*verb.split(), *words)
        assert (said.code, said.out) == (64, "")
        assert said.err.endswith(f": {old} is now spelled {new} (see: ethogram {verb} --help)\n")


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("compare one --baseline two", "the baseline is the first argument: ethogram compare BASE CANDIDATE"),
        ("compare one --against two", "the baseline is the first argument: ethogram compare BASE CANDIDATE"),
        ("gate one --against=two", "the baseline is the first argument: ethogram gate BASE CANDIDATE"),
        ("report one --against two", "the baseline is the first argument: ethogram report BASE CANDIDATE"),
        ("stats --run one", "the run is an argument: ethogram stats RUN"),
        ("show --run one", "the run is an argument: ethogram show RUN"),
        ("plan --run one", "the run is an argument: ethogram plan RUN"),
        ("explore map --run one", "the run is an argument: ethogram explore map RUN"),
        ("variance --run one", "runs are arguments: ethogram variance RUN RUN"),
        ("stats one -k 2", "which k to estimate is given with --k, such as --k 1,2,4"),
    ],
)
def test_what_is_an_argument_is_said_to_be_one(call, line, sentence):
    said = call(*line.split())
    assert said.code == 64
    assert f": {sentence} (see: ethogram " in said.err


@pytest.mark.parametrize("verb", ["export", "report", "explore race"])
def test_a_verb_that_never_had_an_option_does_not_say_so(call, verb):
    said = call(*verb.split(), "--csv", "x.csv")
    assert said.code == 64
    assert "now spelled" not in said.err


def test_a_verb_without_the_option_names_no_other(call):
    said = call("stats", "latest", "--baseline", "other")
    assert said.code == 64
    assert said.err == "ethogram stats: there is no option --baseline (see: ethogram stats --help)\n"


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("report one --output x.html", "there is no option --output; similar: --out"),
        ("run a b --name x", "there is no option --name"),
    ],
)
def test_an_unknown_option_names_what_is_spelled_alike(call, line, sentence):
    said = call(*line.split())
    assert said.code == 64
    assert f": {sentence}" in said.err
    assert "No such option" not in said.err


PYTHON = {
    **{verb.name: verb.name for verb in VERBS if verb.name in ethogram.__all__},
    "Experiment": "perturb",
    "explore": "explore run",
    "golden": "golden check",
    "import_logs": "import",
    "incident": "incident show",
}
"""Public functions that have a verb: most have its name."""

NO_VERB = {
    "Dimension", "Estimate", "EthogramError", "Field", "Suite", "Task", "Trace",  # records
    "from_langgraph", "span", "tool",  # marks in the code of an agent
    "load",  # a stored run as an object
}  # fmt: skip

IN_PYTHON_ONLY = {
    "progress": "a function that is called; on the command line progress goes to stderr",
    "options": "a record of settings that are options of their own on the command line",
    "environment": "a record: --env and --clean-env",
    "metering": "a record: --price, --prices and --allow-unmetered",
    "stop": "a record: --stop-balanced, --stop-misclassified and --stop-undecided",
    "fork every": "the usual spacing of looks serves; the number of pairs, -k, decides",
    "fork source": "the run that has the trace; the verb looks in all of them",
    "fresh": "on the command line --base-agent means it, with --buy",
    "ahead": "measured in bench/, and no option: the order of attempts",
    "seal": "on the command line the home's keys say it, but for import, which has --no-seal",
    "label csv_file": "`from` is a keyword of Python",
    "label name": "the option is --label, and so is the function called",
    "variance prices": "a record: --run-usd, --label-usd and --task-usd",
    "golden level": "the level of the command line is 0.95",
    "judge retries": "the usual number serves",
    "plan every": "the looks of a plan are those of the gate, which has --every",
    "why level": "the level of the command line is 0.95",
}
"""Keywords without an option of that name, and why."""


def keywords(function: Any) -> list[str]:
    """The names of the parameters that are given by name."""
    return [p.name for p in signature(function).parameters.values() if p.kind is p.KEYWORD_ONLY]


def spelled_in(path: str) -> set[str]:
    """Options and arguments of a verb, as names in Python; a list has the plural of an option that is repeated."""
    verb = next(v for v in VERBS if v.name == path.split()[0])
    commands = verb_app(verb).registered_commands
    command = dict(zip(verb_paths(verb)[-len(commands) :], commands, strict=True))[path]
    names = {name.lstrip("-").replace("-", "_") for option in OPTIONS if option.verb == path for name in option.names}
    hints = get_type_hints(command.callback, include_extras=True).items()
    arguments = {name for name, hint in hints if "ArgumentInfo" in {type(a).__name__ for a in get_args(hint)}}
    return names | {f"{name}s" for name in names} | arguments


@pytest.mark.parametrize("name", PYTHON)
def test_keywords_are_spelled_as_options(name):
    excused = {key.split()[-1] for key in IN_PYTHON_ONLY if " " not in key or key.startswith(f"{name} ")}
    assert set(keywords(getattr(ethogram, name))) - spelled_in(PYTHON[name]) <= excused


def test_every_public_function_is_held_to_its_verb():
    assert set(PYTHON) | NO_VERB | {"__version__"} == set(ethogram.__all__)
    needed = {
        key
        for name, verb in PYTHON.items()
        for keyword in keywords(getattr(ethogram, name))
        if keyword not in spelled_in(verb)
        for key in (keyword, f"{name} {keyword}")
    }
    assert set(IN_PYTHON_ONLY) <= needed
