"""`ethogram completion`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from ethogram.errors import BadUsage

from .main import VERBS

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


def command(shell: Annotated[str, typer.Argument(help="bash, zsh or fish.")] = "bash") -> int:
    """Print a completion script for your shell: the script is the whole output, so there is no --json.

    Example: `ethogram completion bash >> ~/.bashrc`
    """
    options = {v.name: _options(v.name) for v in VERBS}
    if shell in ("bash", "zsh"):
        cases = "\n".join(f'    {name}) local opts="{" ".join(found)}" ;;' for name, found in options.items())
        script = _BASH.format(verbs=" ".join(options), cases=cases)
        print((_ZSH if shell == "zsh" else "") + script, end="")
    elif shell == "fish":
        for verb in VERBS:
            print(f"complete -c ethogram -n __fish_use_subcommand -a {verb.name} -d {verb.help!r}")
            for word in options[verb.name]:
                what = f"-l {word.removeprefix('--')}" if word.startswith("--") else f"-a {word}"
                print(f"complete -c ethogram -n '__fish_seen_subcommand_from {verb.name}' {what}")
    else:
        raise BadUsage(f"no completion for {shell!r}; there is bash, zsh and fish")
    return 0


def _options(name: str) -> list[str]:
    """Sub-commands and long options of a verb, read from the verb itself."""
    from .main import verb_app

    verb = next(v for v in VERBS if v.name == name)
    if name in ("completion",):
        return []
    built = typer.main.get_command(verb_app(verb))
    below: dict[str, Any] = getattr(built, "commands", {})
    given = [p for command in (built, *below.values()) for p in command.params]
    return [*below, *sorted({o for p in given for o in (*p.opts, *p.secondary_opts) if o.startswith("--")})]
