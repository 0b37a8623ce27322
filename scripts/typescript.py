"""The view models as TypeScript: one interface per record, and the query and the answer of every route.

`web/src/models.ts` is written from this, and compared by `scripts/generate.py --check`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import msgspec

HEAD = "// Written by scripts/generate.py from the view models of ethogram.viewer. Do not edit.\n"


def models_text(structs: Callable[[list[type]], list[Any]]) -> str:
    """The text of `web/src/models.ts`; `structs` gives all records that some records hold."""
    from ethogram.viewer.api import api_routes
    from ethogram.viewer.paper import Inside
    from ethogram.viewer.report.paper_trace import PaperTrace
    from ethogram.viewer.server import ApiProblem, HomeChange

    routes = api_routes()
    kinds = [kind for route in routes for kind in (route.query, route.answer)]
    kinds += [HomeChange, ApiProblem, Inside, PaperTrace]
    _, parts = msgspec.json.schema_components(kinds, ref_template="{name}")
    partial = {route.query.__name__ for route in routes}
    partial |= {kind.__name__ for kind in structs(kinds) if kind.__struct_config__.omit_defaults}
    blocks = [_interface(name, parts[name], name in partial) for name in sorted(parts)]
    table = [
        f'  "{r.path}": {{ method: "{r.method}"; query: {r.query.__name__}; answer: {r.answer.__name__} }};'
        for r in routes
    ]
    return "\n".join([HEAD, *blocks, "export interface Routes {", *table, "}", ""])


def _interface(name: str, part: dict[str, Any], partial: bool) -> str:
    """One record; a partial one (a query, or a record that omits defaults) may leave out what has a default."""
    required = set(part.get("required", ()))
    about = " ".join(part.get("description", "").split())
    lines = [f"/** {about} */"] if about else []
    lines.append(f"export interface {name} {{")
    for field, schema in part["properties"].items():
        mark = "?" if partial and field not in required else ""
        key = field if re.fullmatch(r"[A-Za-z_]\w*", field) else f'"{field}"'
        lines.append(f"  {key}{mark}: {_type(schema)};")
    return "\n".join([*lines, "}", ""])


def _type(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        return str(schema["$ref"])
    if "anyOf" in schema:
        return " | ".join(dict.fromkeys(_type(one) for one in schema["anyOf"]))
    if "enum" in schema:
        return " | ".join(msgspec.json.encode(word).decode() for word in schema["enum"])
    if "const" in schema:
        return msgspec.json.encode(schema["const"]).decode()
    kind = schema.get("type")
    if kind == "array":
        if "prefixItems" in schema:
            return f"[{', '.join(_type(one) for one in schema['prefixItems'])}]"
        inner = _type(schema.get("items") or {})
        return f"({inner})[]" if " | " in inner else f"{inner}[]"
    if kind == "object":
        more = schema.get("additionalProperties")
        return f"Record<string, {_type(more) if isinstance(more, dict) else 'unknown'}>"
    plain = {"string": "string", "integer": "number", "number": "number", "boolean": "boolean", "null": "null"}
    return plain.get(str(kind), "unknown")
