"""Words of tasks in other texts: runs that stand word for word are found, whatever lies between the words."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ethogram.questions.golden.overlap import OverlapSearch, plain_words, reproduced, runs_of, split_texts

TASK = "A customer bought three red kettles on Monday and wants to return one of them before the end of the week"
OTHER = "Count the lamps in the second room of the museum and say how many of them are switched on at noon"
WORD = st.text("abcdefg", min_size=1, max_size=3)


def test_a_text_is_found_whatever_its_case_and_its_signs() -> None:
    search = OverlapSearch({"task": TASK, "other": OTHER, "short": "What does tea cost?"})
    search.feed(f"Some words before. {TASK.upper().replace(' ', ', ')}!", "corpus.txt")
    found = search.found()
    assert found["task"].found == found["task"].of == len(plain_words(TASK)) - 12
    assert found["task"].where == "corpus.txt"
    assert found["other"].found == 0
    assert search.short == {"short": 4}, "four words prove nothing"


def test_a_paraphrase_is_not_called_a_copy() -> None:
    search = OverlapSearch({"task": TASK})
    search.feed("On Monday a customer bought red kettles, three of them, and wants to give one back this week", "x")
    assert search.found()["task"].found == 0


@given(st.lists(WORD, min_size=8, max_size=40), st.lists(WORD, max_size=60))
def test_what_is_found_is_what_a_plain_search_finds(task: list[str], text: list[str]) -> None:
    search = OverlapSearch({"t": " ".join(task)}, n=9)
    search.feed(" ".join(text), "x")
    size = min(9, len(task))
    plain = set(runs_of(task, size)) & set(runs_of(text, size))
    assert search.found()["t"].found == len(plain)


def test_a_rest_that_can_be_guessed_is_not_probed() -> None:
    ending = "Answer with one number and nothing else, without a unit, and do not explain how you found it."
    alike = {name: f"What does {name} cost in our shop today? {ending}" for name in ("tea", "ale", "milk")}
    assert split_texts(alike) == {}, "what every task ends with says nothing of memory"
    cut = split_texts({**alike, "kettle": TASK})["kettle"]
    assert cut.given + cut.rest == TASK
    assert reproduced(cut, cut.rest) == len(cut.own)
    assert reproduced(cut, cut.given) == 0, "an echo is no memory"
    assert reproduced(cut, "I would return the kettle to the shop and ask for the money") == 0
