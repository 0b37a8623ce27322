"""`ethogram completion`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from ethogram.errors import BadUsage
from ethogram.result import Result

from .main import VERBS
from .printing import JsonOption, print_json

SHELLS = ("bash", "zsh", "fish")
_BASH = """_ethogram() {{
  local cur="${{COMP_WORDS[COMP_CWORD]}}"
  if [ "$COMP_CWORD" -eq 1 ]; then COMPREPLY=( $(compgen -W "{verbs}" -- "$cur") ); return; fi
  case "${{COMP_WORDS[1]}}" in
{cases}
  esac
  COMPREPLY=( $(compgen -W "$opts" -- "$cur") $(compgen -f -- "$cur") )
}}
complete -o filenames -F _ethogram ethogram
"""
_ZSH = """(( $+functions[compdef] )) || { autoload -U +X compinit && compinit -u; }
autoload -U +X bashcompinit && bashcompinit
"""


class CompletionScript(Result, kw_only=True):
    """The script that completes verbs and options in a shell."""

    shell: str
    script: str


def command(shell: Annotated[str, typer.Argument(help="bash, zsh or fish.")] = "bash", json: JsonOption = False) -> int:
    """Print a completion script for your shell.

    Example: `ethogram completion bash >> ~/.bashrc`
    """
    if shell not in SHELLS:
        raise BadUsage(f"no completion for {shell!r}; there is bash, zsh and fish", value=shell, choices=SHELLS)
    script = _fish() if shell == "fish" else _bash(shell == "zsh")
    if json:
        print_json(CompletionScript(shell=shell, script=script))
    else:
        print(script, end="")
    return 0


def _bash(zsh: bool) -> str:
    options = {v.name: _options(v.name) for v in VERBS}
    cases = "\n".join(f'    {name}) local opts="{" ".join(found)}" ;;' for name, found in options.items())
    return (_ZSH if zsh else "") + _BASH.format(verbs=" ".join(options), cases=cases)


def _fish() -> str:
    lines = []
    for verb in VERBS:
        lines.append(f"complete -c ethogram -n __fish_use_subcommand -a {verb.name} -d {verb.help!r}")
        for word in _options(verb.name):
            what = f"-l {word.removeprefix('--')}" if word.startswith("--") else f"-a {word}"
            lines.append(f"complete -c ethogram -n '__fish_seen_subcommand_from {verb.name}' {what}")
    return "".join(f"{line}\n" for line in lines)


def _options(name: str) -> list[str]:
    """Sub-commands and long options of a verb, read from the verb itself."""
    from .main import verb_app

    verb = next(v for v in VERBS if v.name == name)
    built = typer.main.get_command(verb_app(verb))
    below: dict[str, Any] = getattr(built, "commands", {})
    given = [p for command in (built, *below.values()) for p in command.params]
    return [*below, *sorted({o for p in given for o in (*p.opts, *p.secondary_opts) if o.startswith("--")})]
