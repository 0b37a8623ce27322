"""Layer L0: answers that are data. `json` parses and compares, `json_schema` validates (extra `schema`)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from json import JSONDecoder
from typing import Any

import msgspec

from ethogram.errors import BadInput, MissingExtra
from ethogram.traces import cut_whole

from .checks import CheckScore, Evidence, answered, is_veiled, register, short
from .formats import UNCHECKED, format_checker, formats_in
from .patterns import find
from .settings import JsonCheck, JsonSchema
from .values import ABSENT, Loose, at_path, difference

_FENCE = re.compile(r"```[A-Za-z0-9]*[ \t]*\n(.*?)\n?[ \t]*```", re.DOTALL)
_NO_JSON = object()
_MOST_BRACES = 1000
_PLACES = JSONDecoder()


def parsed(text: str, fenced: bool = True) -> Any:
    """The JSON of a text, also of one fenced block inside it; a marker of its own if there is none."""
    candidates = [text]
    if fenced and len(blocks := _FENCE.findall(text)) == 1:
        candidates.append(blocks[0])
    for candidate in candidates:
        try:
            return msgspec.json.decode(candidate.strip())
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            continue
    return _NO_JSON


def object_in(text: str, member: str) -> dict[str, Any]:
    """The last JSON object of a text that has this member, also between words or fences; empty where there is none.

    Example: `object_in('step {3} is wrong: {"better": "first"}', "better")` is `{"better": "first"}`.
    """
    whole = parsed(text)
    if isinstance(whole, dict) and member in whole:
        return whole
    found: dict[str, Any] = {}
    at = text.find("{")
    for _ in range(_MOST_BRACES):
        if at < 0:
            break
        end = at + 1
        try:
            _, end = _PLACES.raw_decode(text, at)
            value = msgspec.json.decode(text[at:end])
        except (ValueError, RecursionError):  # both decoders raise kinds of ValueError
            value = {}
        found = value if member in value else found
        at = text.find("{", end)
    return found


def _decoded(evidence: Evidence, fenced: bool) -> tuple[Any, CheckScore | None]:
    answer = answered(evidence)
    if isinstance(answer, CheckScore):
        return None, answer
    value = parsed(answer, fenced)
    if value is not _NO_JSON:
        return value, None
    if is_veiled(evidence):
        return None, CheckScore(None, "redaction took something out of the answer, so this cannot be decided")
    return None, CheckScore(0.0, f"{short(answer)} is not JSON")


@register("json")
def json(evidence: Evidence, settings: dict[str, Any]) -> CheckScore:
    """Whether the answer is JSON, and says what it should."""
    rule = msgspec.convert(settings, JsonCheck)
    value, verdict = _decoded(evidence, rule.fenced)
    if verdict is not None:
        return verdict
    loose = Loose(unordered=rule.unordered, redact=evidence.redact)
    expected = _expected(rule, evidence, value)
    if expected is not msgspec.UNSET:
        kept = value
        if rule.extra and isinstance(value, dict) and isinstance(expected, dict):
            kept = {k: v for k, v in value.items() if k in expected}
        found = difference(expected, kept, loose)
        if found is not None:
            return CheckScore(0.0, found)
    for path, expected in rule.has.items():
        there = at_path(value, path)
        found = f"{path}: is missing" if there is ABSENT else difference(expected, there, loose, path)
        if found is not None:
            return CheckScore(0.0, found)
    says = rule.has or expected is not msgspec.UNSET
    return CheckScore(1.0, "the answer is JSON" + (" and says what it should" if says else ""))


def _expected(rule: JsonCheck, evidence: Evidence, value: Any) -> Any:
    """What the whole answer should be: the check's own setting, else, where no path is named, what the task expects.

    A task may write it as a text of JSON.
    """
    if rule.expected is not msgspec.UNSET:
        return rule.expected
    if rule.has or evidence.expected is None:
        return msgspec.UNSET
    if isinstance(evidence.expected, str) and not isinstance(value, str):
        read = parsed(evidence.expected, fenced=False)
        return evidence.expected if read is _NO_JSON else read
    return evidence.expected


@register("json_schema")
def json_schema(evidence: Evidence, settings: dict[str, Any]) -> CheckScore:
    """Whether the answer is JSON that a schema allows."""
    rule = msgspec.convert(settings, JsonSchema)
    value, verdict = _decoded(evidence, rule.fenced)
    if verdict is not None:
        return verdict
    errors = validator(schema_of(rule, evidence.root)).iter_errors(value)
    first = min(errors, key=lambda e: (len(e.path), str(e.json_path)), default=None)
    if first is None:
        return CheckScore(1.0, "the schema allows the answer")
    if is_veiled(evidence):
        return CheckScore(None, "redaction took something out of the answer, so this cannot be decided")
    return CheckScore(0.0, cut_whole(f"{first.json_path}: {first.message}", 500))


def schema_of(rule: JsonSchema, root: Any) -> Any:
    """The schema, read from the suite's file where it is one."""
    if not isinstance(rule.schema, str):
        return rule.schema
    if root is None:
        raise BadInput(
            f"the schema {rule.schema!r} is a file of a suite, and there is no suite here", where=rule.schema
        )
    try:
        return msgspec.json.decode((root / rule.schema).read_bytes())
    except OSError as error:
        raise BadInput(f"the schema {rule.schema!r} cannot be read: {error.strerror}", where=rule.schema) from None
    except msgspec.DecodeError as error:
        raise BadInput(f"the schema {rule.schema!r} is not JSON: {error}", where=rule.schema) from None


def validator(schema: Any) -> Any:
    """A validator that never asks the network for a schema."""
    try:
        import jsonschema  # type: ignore[import-untyped]
        from referencing import Registry
    except ImportError:
        raise MissingExtra.needed("schema", "a check of kind 'json_schema'") from None
    shape = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
    try:
        shape.check_schema(schema)
    except jsonschema.SchemaError as error:
        raise BadInput(f"the JSON schema is not valid: {error.message}") from None
    unknown = sorted(formats_in(schema) & UNCHECKED)
    if unknown:
        raise BadInput(
            f"the JSON schema demands the format {unknown[0]!r}, which nothing here checks; demand it by a 'pattern'"
        )
    timed = jsonschema.validators.extend(shape, {"pattern": _pattern})
    return timed(schema, registry=Registry(), format_checker=format_checker())


def _pattern(validator: Any, pattern: str, instance: Any, schema: Any) -> Iterator[Any]:
    """The keyword `pattern`, within the time that every pattern has."""
    import jsonschema

    if validator.is_type(instance, "string") and find(pattern, instance) is None:
        yield jsonschema.ValidationError(f"{instance!r} does not match {pattern!r}")
