"""Run a program's own files as they were submitted: those that are the project's code, from the snapshot.

``python train.py``, ``Rscript fit.R``, ``torchrun train.py`` and ``./fit.sh`` name the code that they run by its
path. The working folder stays the user's, so that what a program reads and writes there is where it was.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from helpers.runtime.rank.source import Source, lead_programs, read_source

if TYPE_CHECKING:
    from collections.abc import Sequence

    from helpers.runtime.run.description import Description

_CODE = frozenset({".py", ".r", ".jl", ".sh", ".bash", ".zsh", ".pl", ".rb", ".lua", ".js", ".m", ".do"})
_PYTHON = re.compile(r"python[\d.]*")


def command_as_submitted(description: Description) -> list[str]:
    """Return the words of a command, with the snapshot's copy for each that names a file of the project's code.

    Modules of the project are found in the snapshot, too, by Pythons that this process starts. Data and
    configuration that a word names are what they are now.
    """
    source, words = read_source(description.source), list(description.command)
    if source is None or source.snapshot is None:
        return words
    lead_programs(source, [*_folder_of_module(source, description), *description.sys_path])
    found = [_copy_of(source, word, description.directory, is_program=not place) for place, word in enumerate(words)]
    as_submitted = [copy or word for copy, word in zip(found, words, strict=True)]
    if _folder_of_module(source, description):
        as_submitted.insert(1, "-P")  # else Python looks for the module in the working folder first
    return as_submitted


def _copy_of(source: Source, word: str, directory: str, *, is_program: bool) -> str | None:
    """Return the snapshot's own copy of a file of code; None for any other word."""
    if is_program and "/" not in word:
        return None  # it is found on PATH
    copy = source.inside(os.path.abspath(os.path.join(directory, word)))  # noqa: PTH100, PTH118 -- links stay
    if copy is None or not Path(copy).is_file():
        return None
    return copy if Path(copy).suffix.lower() in _CODE or os.access(copy, os.X_OK) else None


def _folder_of_module(source: Source, description: Description) -> Sequence[str]:
    """Return the working folder, where ``python -m`` would take its module from there, and the snapshot has it.

    Only for the interpreter that the caller had: another may be too old for ``-P``.
    """
    program, *rest = description.command
    if description.inside or not _PYTHON.fullmatch(Path(program).name) or rest[:1] != ["-m"] or not rest[1:]:
        return ()
    interpreter, copy = shutil.which(program), source.inside(description.directory)
    if interpreter is None or copy is None or os.path.realpath(interpreter) != os.path.realpath(description.python):
        return ()
    module = Path(copy, rest[1].partition(".")[0])
    return (description.directory,) if module.is_dir() or module.with_suffix(".py").is_file() else ()
