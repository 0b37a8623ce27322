"""Rubrics by name or from a YAML or JSON file."""

from __future__ import annotations

from pathlib import Path

from ethogram.errors import BadInput, NotFound
from ethogram.findings.rubric import STANDARD, Rubric, rubric_from

MOST_BYTES = 1_000_000


def read_rubric(wanted: str | Path | Rubric = "standard") -> Rubric:
    """The rubric that ships (`standard`), or that of a YAML or JSON file.

    Raises `NotFound` for a file that does not exist, `BadInput` for one that is no rubric, with one sentence.

    Example: `read_rubric("rubric.yaml").digest`
    """
    if isinstance(wanted, Rubric):
        return wanted
    if str(wanted) == STANDARD.name:
        return STANDARD
    import yaml

    place = Path(wanted)
    try:
        if place.stat().st_size > MOST_BYTES:
            raise BadInput(f"{place.name} is larger than a rubric can be (1 MB); give a smaller file", where=str(place))
        data = yaml.safe_load(place.read_text(encoding="utf-8"))
    except OSError as error:
        what = f"no rubric at {str(wanted)!r}: {error.strerror}; the one that ships is called standard"
        raise NotFound(what, where=str(wanted)) from None
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        first = " ".join(str(error).split())[:200]
        raise BadInput(f"{place.name} is not YAML: {first}", where=str(place)) from None
    try:
        found = rubric_from(data)
    except BadInput as error:
        raise BadInput.at(place.name, error.cli_message) from None
    return found if isinstance(data, dict) and "name" in data else Rubric(name=place.stem, items=found.items)
