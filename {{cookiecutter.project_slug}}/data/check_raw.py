"""Say whether ``data/raw`` is what ``data/raw.manifest`` says: nothing changed, deleted or undeclared.

Needs nothing but Python, so that it runs before a commit, in CI and on a login node::

    python3 data/check_raw.py            # exit code 1 and one line for each file that differs
    python3 data/check_raw.py --write    # declare the files as they are now
"""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

RAW = Path(__file__).resolve().parent / "raw"
MANIFEST = RAW.with_suffix(".manifest")  # a line a file: path, size in bytes, sha256, with tabs between them


def describe(path: Path) -> str:
    """Return the manifest's line for a file."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        for block in iter(lambda: file.read(2**20), b""):
            digest.update(block)
    return f"{path.relative_to(RAW).as_posix()}\t{path.stat().st_size}\t{digest.hexdigest()}"


def found() -> dict[str, str]:
    """Return the line of each file in ``data/raw``, by its path."""
    lines = [describe(path) for path in sorted(RAW.rglob("*")) if path.is_file() and path.name != "README.md"]
    return {line.split("\t")[0]: line for line in lines}


def differences(declared: dict[str, str], present: dict[str, str]) -> list[str]:
    """Return a line for each file that is not as declared."""
    lines = [f"deleted: data/raw/{path}" for path in declared.keys() - present.keys()]
    lines += [f"undeclared: data/raw/{path}" for path in present.keys() - declared.keys()]
    common = declared.keys() & present.keys()
    return sorted(lines + [f"changed: data/raw/{path}" for path in common if declared[path] != present[path]])


def main(arguments: list[str]) -> int:
    """Run the command and return its exit code."""
    if arguments == ["--write"]:
        MANIFEST.write_text("".join(f"{line}\n" for line in found().values()), encoding="utf-8")
        return 0
    declared = {line.split("\t")[0]: line for line in MANIFEST.read_text(encoding="utf-8").splitlines()}
    wrong = differences(declared, found())
    if wrong:
        print("data/raw differs from data/raw.manifest:", *wrong, sep="\n  ", file=sys.stderr)
        print("Get a file back with git checkout, or declare the change: --write", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
