"""Execute a notebook with IPython, cell by cell, and write it with what its cells show as one HTML page.

    python scripts/notebooks.py NOTEBOOK [PAGE.html]

It runs in the current folder and fails at the first cell that raises. There is no kernel: IPython's own shell runs the
cells in this process and formats what they show, as a kernel would.
"""

from __future__ import annotations

import json
import sys
from html import escape
from pathlib import Path
from typing import Any

from IPython.core.displayhook import CapturingDisplayHook
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

PAGE = """<!doctype html><meta charset="utf-8"><title>{title}</title><style>
body {{font: 14px/1.5 system-ui, sans-serif; max-width: 1040px; margin: 24px auto}} :root {{color-scheme: light dark}}
pre {{white-space: pre-wrap; font-size: 12px}}
pre.code {{background: #8881; padding: 8px; border-left: 3px solid #8886}}
</style>{cells}
"""


def main(notebook: Path, page: Path | None) -> int:
    """Run every cell; the page is written even when one fails."""
    shell: Any = InteractiveShell.instance(colors="nocolor")
    shown, failed = [], None
    for cell in json.loads(notebook.read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] != "code":
            shown.append(f"<div>{marked(source)}</div>")
            continue
        results: list[dict[str, Any]] = []
        shell.display_trap.hook = CapturingDisplayHook(shell=shell, outputs=results)
        with capture_output() as said:
            done = shell.run_cell(source, store_history=True)
        displayed = [rich.data for rich in said.outputs] + [result["data"] for result in results]
        shown.append(f'<pre class="code">{escape(source)}</pre>{output(said.stdout, displayed)}')
        if not done.success:
            failed = done.error_in_exec or done.error_before_exec
            break
    if page is not None:
        page.write_text(PAGE.format(title=escape(notebook.stem), cells="\n".join(shown)), encoding="utf-8")
    if failed is not None:
        print(f"{notebook.name}: {type(failed).__name__}: {failed}", file=sys.stderr)
    return int(failed is not None)


def output(printed: str, displayed: list[dict[str, Any]]) -> str:
    """What a notebook shows below a cell: its print, then each result by the richest form that it has."""
    parts = [f"<pre>{escape(printed)}</pre>"] if printed else []
    for data in displayed:
        html = data.get("text/html")
        parts.append(html if html is not None else f"<pre>{escape(data.get('text/plain', ''))}</pre>")
    return "".join(parts)


def marked(text: str) -> str:
    """Headings and paragraphs; enough to read a page by."""
    lines = [part.strip() for part in text.split("\n\n")]
    marks = [(len(part) - len(part.lstrip("#")), part.lstrip("# ")) for part in lines]
    return "".join(f"<h{n}>{escape(t)}</h{n}>" if n else f"<p>{escape(t)}</p>" for n, t in marks)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2]) if len(sys.argv) > 2 else None))
