"""A small agent to begin with. Replace `solve` by your own: it is called with the task and the episode.

The episode offers tools (every call is recorded), `record` for model calls, `rng` for randomness that repeats,
`remaining` for what is left of the budget, and `workspace` for the task's files. An agent that records all its model
calls says so with `meters`; without that, `--max-usd` is refused.
"""

import re

ITEMS = ("tea", "bread", "milk", "cheese", "unicorn")


def solve(task, episode):
    """Looks prices up and adds them; now and then it forgets the second item, as agents do."""
    wanted = re.findall("|".join(ITEMS), task.prompt)
    if len(wanted) > 1 and episode.rng.random() < 0.3:
        wanted = wanted[:1]
    total = 0
    for item in wanted:
        try:
            total += episode.tools["price"](item=item)
        except LookupError:
            return f"There is no such item: {item}"
    return str(total)


solve.meters = ("tokens", "usd")  # all that it uses is recorded (it calls no model), so a cap on dollars can be kept
