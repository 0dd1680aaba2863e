"""Take the outputs out of notebooks before a commit: they are large, change at each run, and may show data.

A hook without a network: ``python3 -m helpers.project.notebooks FILE…`` rewrites what has outputs, names it, and
ends with 1, so that the commit is made again with what is left.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence


def strip_outputs(text: str) -> str:
    """Return a notebook without outputs, counts of execution, and what an editor notes about a run.

    Raises:
        ValueError: If it is no notebook.
    """
    notebook: dict[str, Any] = json.loads(text)
    if not isinstance(notebook, dict) or not isinstance(notebook.get("cells"), list):
        raise ValueError("it has no list of cells")  # noqa: TRY004 -- as of text that is no JSON
    changed = False
    for cell in notebook["cells"]:
        if cell.get("cell_type") == "code":
            changed |= bool(cell.get("outputs")) or cell.get("execution_count") is not None
            cell["outputs"], cell["execution_count"] = [], None
        changed |= cell.get("metadata", {}).pop("execution", None) is not None
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n" if changed else text


def main(names: Sequence[str]) -> int:
    """Strip these files in place; return 1 if one had outputs or is no notebook."""
    code = 0
    for name in names:
        file = Path(name)
        text = file.read_text(encoding="utf-8")
        try:
            stripped = strip_outputs(text)
        except ValueError as error:
            print(f"{name} is no notebook: {error}", file=sys.stderr)
            code = 1
            continue
        if stripped != text:
            file.write_text(stripped, encoding="utf-8")
            print(f"took the outputs out of {name}; add it again")
            code = 1
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
