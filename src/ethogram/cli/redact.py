"""`ethogram redact`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ethogram.capture.readers import formats
from ethogram.questions.logs.redaction import preview_redaction

from .printing import HomeOption, JsonOption, print_json, stdout, table


def command(
    paths: Annotated[list[Path], typer.Argument(help="Files, folders or archives of logs.")],
    format: Annotated[
        str | None,
        typer.Option(help=f"Format of the logs, by default recognised by content: {', '.join(formats())}."),
    ] = None,
    redact: Annotated[str, typer.Option(help="default, secrets (no personal data), or none.")] = "default",
    pattern: Annotated[list[str] | None, typer.Option(help="Also redact NAME=REGEX; may be repeated.")] = None,
    json: JsonOption = False,
    home: HomeOption = None,
) -> int:
    """Report what an import would redact, by kind and by place; nothing is stored and no secret is shown.

    Example: `ethogram redact logs/ --pattern 'customer=CUST-[0-9]{6}'`
    """
    result = preview_redaction(
        [str(p) for p in paths], format=format, policy=redact, patterns=tuple(pattern or ()), home=home
    )
    if json:
        print_json(result)
        return 0
    out = stdout()
    rows = [[f.kind, f.field, f.count, f.distinct, f.examples] for f in result.found]
    out.print(table(["kind", "field", "found", "distinct", "marks"], rows))
    out.print(f"{result.texts:,} texts, {result.chars:,} characters looked at; nothing was stored", style="dim")
    return 0
