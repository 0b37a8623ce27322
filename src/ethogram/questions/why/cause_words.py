"""Findings in words: the description of a name such as `never_called:book`, and what to try first."""

from __future__ import annotations

from .causes import Tested, way_words
from .decisions import Choice
from .owners import OTHER, Owner
from .run_findings import AllFindings, Seen

_SAID = {
    "called": "calls {rest}",
    "never_called": "never calls {rest}",
    "pair": "calls {rest} in a row",
    "ended": "ends with: {rest}",
    "repeat": "calls {rest} again with the same arguments",
    "loop": "repeats {rest} without anything new",
    "abandoned": "leaves {rest} after it failed",
    "no_return": "{rest} never returned",
    "write_not_read_back": "does not read back what {rest} wrote",
    "refusal": "a reply was refused",
    "length_stop": "a reply was cut off at its length limit",
    "success_claimed_after_error": "claims success though its last call failed",
    "missing_call": "does not make the expected call of {rest}",
    "extra_call": "calls {rest}, which the reference does not expect",
    "wrong_arguments": "{rest} has another value than the reference expects",
    "other_call": "calls {rest} where the reference expects another call",
    "same_calls": "makes the calls of the reference",
    "wrong_tool": "calls {rest}, which is not the tool for this",
    "bad_args": "calls {rest} with arguments that it refuses",
    "hallucinated_state": "calls {rest} with a value that no observation returned",
    "gave_up": "gives up with {rest}",
    "budget": "was stopped by its budget: {rest}",
    "infrastructure": "{rest} failed for reasons outside the agent",
}
_TRIED = {
    "called": "read what leads to the call of {rest}, and say in its description when not to use it",
    "never_called": "say in the prompt, or in the description of {rest}, when it must be called",
    "pair": "read the steps between {rest}, and compare with a successful attempt",
    "repeat": "tell the model what {rest} returned the first time, or answer from a cache that says so",
    "abandoned": "say in the error of {rest} what to try instead",
    "no_return": "give {rest} a time limit and an error text",
    "write_not_read_back": "ask for a read after {rest}",
    "success_claimed_after_error": "ask for a check of the last result before the answer",
    "length_stop": "raise the limit of a reply, or ask for shorter ones",
    "refusal": "read what was asked for, and reword it",
    "missing_call": "say when {rest} must be called, and check at the end of an attempt that it was",
    "extra_call": "say when {rest} must not be called, or ask for a confirmation before it",
    "wrong_arguments": "look where the value of {rest} comes from, and narrow its schema",
    "other_call": "say in the description of {rest} when another tool is meant",
    "error": "read the error in its step, and let its text say what the agent should do instead",
}


def what_it_is(seen: Seen | Choice, found: AllFindings) -> str:
    """What happens, in a few words."""
    if isinstance(seen, Choice):
        return _choice_words(seen, found)
    words = seen.detail.get("what")
    if isinstance(words, str):
        return words
    kind, _, rest = seen.name.partition(":")
    if seen.source == "template":
        of = f" in {seen.of.most_common(1)[0][0]}" if seen.of else ""
        return f"error{of}: {seen.detail.get('words', rest)}"
    if seen.source == "verifier":
        return seen.name.replace("_", " ").replace(":", ": ", 1)
    said = _SAID.get(kind)
    return said.format(rest=rest.replace(">", ", ")) if said else seen.name.replace("_", " ").replace(":", ": ", 1)


def _choice_words(choice: Choice, found: AllFindings) -> str:
    way, before = way_words(choice.choice, found), choice.place.before
    if not before:
        return f"begins with: {way}"
    last = found.words[before[-1]]
    if choice.place.first_time:
        return f"after the first '{last}': {way}"
    return f"at step {len(before)}, after '{last}': {way}"


def owner_of(tested: Tested, owners: dict[str, Owner], found: AllFindings) -> tuple[str | None, str]:
    """Who owns it and what to try first: by class, else by what it is."""
    seen = tested.seen
    if isinstance(seen, Choice):
        said = f"at that place, lead the agent to another step than '{way_words(seen.choice, found)}'"
        return owners[OTHER].owner, said
    kind, _, rest = seen.name.partition(":")
    tried = _TRIED.get(kind)
    if seen.cls is not None:
        return owners[seen.cls].owner, owners[seen.cls].try_
    return owners[OTHER].owner, tried.format(rest=rest.replace(">", ", ")) if tried else owners[OTHER].try_
