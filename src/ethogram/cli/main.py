"""The `ethogram` command: a table of verbs. The top level prints plain text and imports nothing heavy."""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from functools import cache
from importlib import import_module
from types import TracebackType
from typing import Any, NamedTuple

from .streams import outlive_readers
from .waiting import sign_of_life

SILENT = frozenset(
    {"stats", "compare", "gate", "plan", "cost", "why", "field", "diff", "divergence", "report", "sql", "export"}
    | {"verify", "show", "trace", "score", "replay"}
)
"""Verbs that may compute for long and ask nothing; the others show what they do."""
STOPPED = 130
BAD_INPUT = 64


class Verb(NamedTuple):
    """A verb: its name, the module in `ethogram.cli` that holds it, and what it does in one line."""

    name: str
    module: str
    help: str


VERBS = (
    Verb("init", "init", "write a small working suite and agent into this folder"),
    Verb("run", "run", "run an agent K times on every task of a suite, within budgets; resume it"),
    Verb("import", "import_", "import logs of other tools; the format is recognised by content"),
    Verb("score", "score", "score stored runs again, without running the agent"),
    Verb("stats", "stats", "how reliable: pass@k and pass^k with intervals, per task, what is missing"),
    Verb("compare", "compare", "two versions on the same tasks: difference, changed outcomes, which tasks moved"),
    Verb("gate", "gate", "a pass / regression / undecided verdict on a candidate run, at planned looks"),
    Verb("plan", "plan", "attempts and dollars needed to detect a drop, or the drop that a budget can detect"),
    Verb("cost", "cost", "what it cost: per attempt, step, tool and resolved task; a month; routing"),
    Verb("why", "why", "why attempts fail: causes with evidence, leads, what stays unexplained"),
    Verb(
        "judge",
        "judge",
        "judge the steps of traces against a rubric: by rule, by a model, by several; measure the judge",
    ),
    Verb("label", "label", "label traces by hand; a failure class set by hand overrides the rules of why"),
    Verb(
        "calibrate",
        "calibrate",
        "whether a judge can be trusted: agreement with people per item, corrected rates, drift",
    ),
    Verb("variance", "variance", "sources of variance: task, agent, judge, environment; what to buy next"),
    Verb("field", "field", "how behaviour varies, on what successes and failures differ, what to change"),
    Verb("diff", "diff", "two traces step by step: what differs, from which step on, in which way"),
    Verb("divergence", "divergence", "distances between repeats, or between two runs, compared with the noise floor"),
    Verb(
        "operators",
        "operators",
        "operators that perturb files, tools, prompts and model calls; which fit a file",
    ),
    Verb("perturb", "perturb", "damage what an agent reads, and see whether its behaviour changes"),
    Verb("fork", "fork", "continue a trace from a step with one thing changed: the effect on success"),
    Verb("replay", "replay", "repeat an episode offline from recorded answers; or repeat each decision with a change"),
    Verb("explore", "explore", "find the settings in which an agent fails too often, with few episodes"),
    Verb("golden", "golden", "freeze a suite at a version, record its changes, check it, turn failures into tasks"),
    Verb("incident", "incident", "failures in production: evidence, owner, rollback; closed by a golden task"),
    Verb("gateway", "gateway", "a local proxy for model calls: records, prices, caps and can stop them"),
    Verb("mcp", "mcp", "a proxy between an MCP client and its server: record, disturb or replay tool calls"),
    Verb("serve", "serve", "receive spans of live agents over OTLP/HTTP into traces of a run"),
    Verb("view", "view", "runs and traces in a browser, live"),
    Verb("runs", "runs", "list runs"),
    Verb("show", "show", "what is in a run: tasks, episodes, totals, what could not be imported"),
    Verb("trace", "trace", "one trace as a tree, with tokens, time and errors"),
    Verb("report", "report", "everything about a run as one HTML file that opens offline"),
    Verb("sql", "sql", "query all runs in SQL"),
    Verb("export", "export", "a run as parquet, csv, jsonl, atif, otlp or an Inspect log"),
    Verb("kill", "kill", "halt new episodes everywhere; those in flight may finish"),
    Verb("drill", "drill", "use the kill switch on a practice run and measure it"),
    Verb("verify", "verify", "re-derive every hash; name what is damaged"),
    Verb("retain", "retain", "delete old successes, keep failures and a sample"),
    Verb("keys", "keys", "keys that seal payloads: list, new, rotate, drop"),
    Verb("token", "token", "tokens for servers that others can reach: list, create, revoke"),
    Verb("redact", "redact", "what would be redacted in a file, without storing anything"),
    Verb("doctor", "doctor", "check this installation: versions, extras, plug-ins, disk, home, keys"),
    Verb("rm", "rm", "remove a run"),
    Verb("completion", "completion", "completion script for bash, zsh or fish"),
    Verb("demo", "demo", "a tour of the main commands on embedded data, on this machine"),
)


def usage() -> str:
    """The top-level help."""
    width = max(len(v.name) for v in VERBS)
    lines = [f"  {v.name:<{width}}  {v.help}" for v in VERBS]
    return "\n".join(
        [
            "ethogram: run, measure and compare AI agents",
            "",
            "usage: ethogram COMMAND [options]      ethogram COMMAND --help shows options and an example",
            "",
            *lines,
            "",
            "Every command has --json. A run is a directory, a name in the home, or 'latest'.",
            "The home is ETHOGRAM_HOME (default ./.ethogram). Exit codes: 0 done, 1 bad verdict,",
            "2 cannot decide, 64 bad input, 130 stopped.",
        ]
    )


def main(argv: Sequence[str] | None = None) -> None:
    """Run one verb and exit with its code."""
    args = list(sys.argv[1:] if argv is None else argv)
    sys.excepthook = _tell_bug
    answer = outlive_readers()
    code = run_verb(args)
    sys.stdout.flush()
    failed = answer.failed if answer is not None else None
    # a closed pipe is no failure: stdout was closed early, e.g. by `head`
    if failed is not None and not isinstance(failed, BrokenPipeError):
        print(f"ethogram: cannot write the answer: {failed.strerror or failed}", file=sys.stderr)
        code = code or BAD_INPUT
    if argv is None:
        _leave(code)
    sys.exit(code)


def _leave(code: int) -> None:
    """End this process without taking its modules apart: that is a tenth of a short command's time, and threads of
    compiled libraries that are still there can crash it, after the answer and with another exit code."""
    atexit._run_exitfuncs()
    with suppress(OSError, ValueError):
        sys.stderr.flush()
    os._exit(code)


def run_verb(args: list[str]) -> int:
    """Run one verb; gives the exit code."""
    if not args or args[0] in ("-h", "--help", "help"):
        print(usage())
        return 0
    if args[0] in ("-V", "--version"):
        from ethogram import __version__

        print(f"ethogram {__version__}")
        return 0
    verb = next((v for v in VERBS if v.name == args[0]), None)
    if verb is None:
        return _unknown(args)
    return _guarded(verb, args[1:])


def _unknown(args: list[str]) -> int:
    from difflib import get_close_matches

    name = args[0]
    near = get_close_matches(name, [v.name for v in VERBS], n=1)
    hint = f"did you mean {near[0]!r}?" if near else "ethogram --help lists them"
    return _fail("", args, f"no command named {name!r}; {hint}", BAD_INPUT, kind="usage")


def _fail(
    verb: str, args: list[str], sentence: str, code: int, error: BaseException | None = None, kind: str = ""
) -> int:
    """Say why there is no answer: one sentence on stderr, and under `--json` a document on stdout; gives the code."""
    from .failures import print_failure, wants_json

    _say(f"{f'ethogram {verb}'.strip()}: {sentence}")
    if wants_json(args):
        print_failure(verb, sentence, code, error, kind)
    return code


def _say(sentence: str) -> None:
    """What went wrong, on stderr; it may quote an address or an argument, and with it a secret."""
    from ethogram.store.shown_texts import shown

    print(shown(sentence), file=sys.stderr)


def _note_plugins() -> None:
    """Say on stderr which plug-ins were left out, and why; the answer was given without them."""
    if "ethogram.plugins" in sys.modules:
        from ethogram.plugins import new_problems

        for sentence in new_problems():
            _say(f"note: {sentence}")


def _tell_bug(kind: type[BaseException], error: BaseException, at: TracebackType | None) -> None:
    """A traceback is a bug; until it is mended it must not show a secret either."""
    import traceback

    _say("".join(traceback.format_exception(kind, error, at)).rstrip())


def verb_app(verb: Verb) -> Any:
    """The typer application of one verb."""
    import typer

    module = import_module(f"ethogram.cli.{verb.module}")
    if hasattr(module, "app"):
        return module.app
    app = typer.Typer(add_completion=False, rich_markup_mode="markdown", pretty_exceptions_enable=False)
    app.command(verb.name, help=module.command.__doc__, no_args_is_help=False)(module.command)
    return app


@cache
def verb_command(verb: Verb) -> Any:
    """The command of one verb, as it reads its arguments: built once, however often a program calls `run`."""
    from typer.main import get_command

    from .numbers import with_finite_numbers

    return with_finite_numbers(get_command(verb_app(verb)))


def verb_paths(verb: Verb) -> list[str]:
    """The verb, and its sub-commands if it has any: `explore`, `explore run`, `explore map`, …"""
    names = [command.name for command in verb_app(verb).registered_commands]
    return [verb.name, *(f"{verb.name} {name}" for name in names if name != verb.name)]


def _guarded(verb: Verb, args: list[str]) -> int:
    """Call a verb; turn our errors into one sentence and the right code. A traceback is a bug."""
    import typer

    from ethogram.errors import EthogramError

    # typer carries its own copy of click; its root exception is reached through what typer exports
    click_error: type[Exception] = next(c for c in typer.BadParameter.__mro__ if c.__name__ == "ClickException")
    try:
        with sign_of_life(verb.name) if verb.name in SILENT else nullcontext():
            code = verb_command(verb)(args, prog_name=f"ethogram {verb.name}", standalone_mode=False)
    except EthogramError as error:
        return _fail(verb.name, args, error.cli_message, error.exit_code, error)
    except OSError as error:
        where = f" {error.filename}" if error.filename else ""
        sentence = f"cannot write or open{where}: {error.strerror or error}"
        return _fail(verb.name, args, sentence, BAD_INPUT, error, "machine")
    except click_error as error:
        context = getattr(error, "ctx", None)
        path = context.command_path if context is not None else f"ethogram {verb.name}"
        sentence = f"{_what_is_wrong(verb, error)} (see: {path} --help)"
        return _fail(verb.name, args, sentence, BAD_INPUT, kind="usage")
    except (KeyboardInterrupt, typer.Abort):
        if "--watch" not in args:  # whose documents were printed as they came
            return _fail(verb.name, args, "stopped; what was committed is kept", STOPPED, kind="stopped")
        code = STOPPED
    finally:
        _note_plugins()
    if code == STOPPED:
        print(f"ethogram {verb.name}: stopped; what was committed is kept", file=sys.stderr)
    return code if isinstance(code, int) else 0


def _what_is_wrong(verb: Verb, error: Any) -> str:
    """What click says of bad usage; of an old spelling, what it is now."""
    from .spellings import new_spelling, spelled_as_argument, unknown_option

    old = getattr(error, "option_name", None)  # of an option that the verb does not have
    new = new_spelling(verb.name, old) if old is not None else None
    if new is not None and any(new in parameter.opts for parameter in error.ctx.command.params):
        return f"{old} is now spelled {new}"
    if old is not None:
        path = error.ctx.command_path.removeprefix("ethogram ")
        arguments = [p.name for p in error.ctx.command.params if p.param_type_name == "argument"]
        if written := spelled_as_argument(path, old, arguments):
            return f"there is no option {old}: {written}"
    said: str = unknown_option(error) or error.format_message()
    below = getattr(getattr(getattr(error, "ctx", None), "command", None), "commands", None)
    return f"name a sub-command: {', '.join(below)}" if below and said == "Missing command." else said


if __name__ == "__main__":
    main()
