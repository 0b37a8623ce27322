"""`ethogram drill`."""

from __future__ import annotations

from ethogram.questions.home.buying import drill

from .printing import HomeOption, JsonOption, print_json, stdout


def command(json: JsonOption = False, home: HomeOption = None) -> int:
    """Use the kill switch on a practice run, measure how long it takes, and keep the record; exit 1 if too long.

    Example: `ethogram drill`
    """
    result = drill(home=home)
    if json:
        print_json(result)
    else:
        stdout().print(
            f"{'✓' if result.ok else '✗'} the last new episode began {result.seconds_to_halt:.2f} s after the switch "
            f"was set; all in flight had ended after {result.seconds_to_drain:.2f} s; "
            f"{result.episodes_done} done, {result.episodes_not_run} not run",
            markup=False,
        )
    return 0 if result.ok else 1
