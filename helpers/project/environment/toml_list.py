"""Add to a list in a TOML file, and leave every other character as it is: ``tomllib`` reads, and writes nothing."""

from __future__ import annotations

import json
import re
import tomllib
from typing import TYPE_CHECKING, Any

from helpers.config.toml_lines import line_of, lines_of_keys
from helpers.errors import InvalidRequest
from helpers.runtime.files import write_whole

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

_HEADER = re.compile(r"^\[", re.MULTILINE)
_BEFORE_HEADER = re.compile(r"(?:^[ \t]*(?:#[^\n]*)?\n)+\Z", re.MULTILINE)  # blank lines, and what is said of the next


def add_to_list(file: Path, path: tuple[str, ...], new: Sequence[str]) -> None:
    """Put texts at the end of a list; a list, or a table for it, that is not there yet is begun.

    Args:
        file: The TOML file.
        path: The list's table and key: ``("project", "dependencies")``.
        new: What is added.

    Raises:
        InvalidRequest: If the file is no valid TOML, or written so that nothing can be added.
    """
    try:
        text = file.read_bytes().decode("utf-8")  # line ends as they are
        before = tomllib.loads(text)
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InvalidRequest(f"{file} is no valid TOML: {error}.") from error
    added = "".join(f"    {_quoted(one)},\n" for one in new)
    wanted = [*(_value(before, path) or []), *new]
    for changed in _candidates(text, path, before, added):
        if _is_right(changed, path, wanted):
            write_whole(file, changed.encode(), mode=file.stat().st_mode & 0o777)
            return
    raise InvalidRequest(
        f"{file}: nothing can be added to {path[-1]} in [{'.'.join(path[:-1])}] by a program.", hint=f"add: {added}"
    )


def _candidates(text: str, path: tuple[str, ...], before: dict[str, Any], added: str) -> Iterator[str]:
    """Yield the text as it may become; which of them says what is wanted, a parser judges."""
    lines = lines_of_keys(text)
    if _value(before, path) is not None:
        end = _end_of_list(text, _offset(text, line_of(lines, path) - 1))
        body = text[:end].rstrip(" \t")
        for head in (body if body.endswith("\n") else f"{body}\n", f"{body.rstrip()},\n"):
            yield f"{head}{added}{text[end:]}"
        return
    begun = f"{path[-1]} = [\n{added}]\n"
    if path[:-1] in lines:
        start = _offset(text, lines[path[:-1]])
        for end in [*(start + found.start() for found in _HEADER.finditer(text[start:])), len(text)]:
            at = start + len(_BEFORE_HEADER.sub("", text[start:end]))
            yield f"{_ended(text[:at])}{begun}{text[at:]}"
    yield f"{_ended(text)}\n[{'.'.join(path[:-1])}]\n{begun}".lstrip()


def _is_right(text: str, path: tuple[str, ...], wanted: list[str]) -> bool:
    try:
        return bool(_value(tomllib.loads(text), path) == wanted)
    except tomllib.TOMLDecodeError:
        return False


def _value(document: dict[str, Any], path: tuple[str, ...]) -> Any:
    value: Any = document
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _offset(text: str, lines: int) -> int:
    """Return where the line after so many lines begins."""
    at = 0
    for _ in range(lines):
        at = text.find("\n", at) + 1 or len(text)
    return at


def _end_of_list(text: str, start: int) -> int:
    """Return where the list's closing bracket stands: the first at which it is whole; the end where none is."""
    end = start
    while (end := text.find("]", end)) >= 0:
        try:
            tomllib.loads(text[start : end + 1])
        except tomllib.TOMLDecodeError:
            end += 1
        else:
            return end
    return len(text)


def _ended(text: str) -> str:
    return text if not text or text.endswith("\n") else f"{text}\n"


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
