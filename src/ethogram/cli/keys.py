"""`ethogram keys`."""

from __future__ import annotations

from typing import Annotated

import typer

from ethogram.errors import BadUsage
from ethogram.questions.home.maintenance import KeyList, drop_key, list_keys, new_key, rotate_keys

from .printing import HomeOption, JsonOption, YesOption, asked_first, print_json, stdout, table


def command(
    action: Annotated[str, typer.Argument(help="list, new, rotate or drop.")] = "list",
    key: Annotated[str | None, typer.Argument(help="The key to drop.")] = None,
    run: Annotated[list[str] | None, typer.Option(help="Rotate these runs; by default all sealed ones.")] = None,
    yes: YesOption = False,
    json: JsonOption = False,
    home: HomeOption = None,
) -> int:
    """Keys that seal payloads at rest. After dropping a key, what was sealed with it can no longer be read.

    Example: `ethogram keys new`
    """
    if action == "list":
        result = list_keys(home=home)
    elif action == "new":
        result = new_key(home=home)
    elif action == "rotate":
        result = rotate_keys(run or (), home=home)
    elif action == "drop" and key:
        known = list_keys(home=home)
        if key in (*known.keys, *known.sealed_runs):  # of another key there is nothing to ask
            asked_first(f"Delete the key, and with it access to everything sealed with {key}, for ever?", yes)
        result = drop_key(key, home=home)
    else:
        raise BadUsage("say: keys list, keys new, keys rotate, or keys drop KEY")
    print_json(result) if json else _print(result)
    return 0


def _print(result: KeyList) -> None:
    out = stdout()
    known = sorted({*result.keys, *result.sealed_runs})
    if not known:
        out.print(
            f"no keys in {result.path}; payloads are stored unsealed (make one with: ethogram keys new)", markup=False
        )
        return
    rows = [
        [
            k,
            "active" if k == result.active else "at hand" if k in result.keys else "gone",
            result.sealed_runs.get(k, []),
        ]
        for k in known
    ]
    out.print(table(["key", "state", "seals runs"], rows))
    out.print(f"kept in {result.path}", style="dim", markup=False)
