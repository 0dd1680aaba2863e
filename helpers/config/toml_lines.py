"""Find the line on which a key of a TOML file stands: ``tomllib`` does not say, and an error without it is a search."""

from __future__ import annotations

import re

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_SPACE = re.compile(r"[ \t]*")
_OPENING, _CLOSING = "[{", "]}"

Path = tuple[str, ...]


def lines_of_keys(text: str) -> dict[Path, int]:
    """Return the line, from 1, of each table and key of a valid TOML text; an inline table's keys share its line."""
    found: dict[Path, int] = {}
    table: Path = ()
    at, line = 0, 1
    while at < len(text):
        at = _SPACE.match(text, at).end()  # type: ignore[union-attr]  # it matches nothing, too
        if at < len(text) and text[at] == "[":
            begin = at + (2 if text.startswith("[[", at) else 1)
            table, at = _read_path(text, begin)
            found.setdefault(table, line)
        elif at < len(text) and text[at] not in "#\r\n":
            key, at = _read_path(text, at)
            for depth in range(1, len(key) + 1):
                found.setdefault(table + key[:depth], line)
        end = _end_of_statement(text, at)
        line += text.count("\n", at, end)
        at = end
    return found


def line_of(found: dict[Path, int], path: Path) -> int:
    """Return the line of a key, or of the table or inline table that it stands in."""
    return next((found[path[:depth]] for depth in range(len(path), 0, -1) if path[:depth] in found), 1)


def _read_path(text: str, at: int) -> tuple[Path, int]:
    """Read a dotted key and return it with the place behind it."""
    parts: list[str] = []
    while True:
        at = _SPACE.match(text, at).end()  # type: ignore[union-attr]
        if text[at] in "\"'":
            end = _end_of_string(text, at)
            parts.append(_unquote(text[at:end]))
        else:
            match = _BARE.match(text, at)
            if match is None:  # no valid TOML; whoever parsed it has said so
                return tuple(parts), at + 1
            end = match.end()
            parts.append(match[0])
        at = _SPACE.match(text, end).end()  # type: ignore[union-attr]
        if at >= len(text) or text[at] != ".":
            return tuple(parts), at
        at += 1


def _unquote(quoted: str) -> str:
    import tomllib

    value: str = tomllib.loads(f"key = {quoted}")["key"]
    return value


def _end_of_statement(text: str, at: int) -> int:
    """Return the place behind the line break that ends a statement: not one in a string or between brackets."""
    depth = 0
    while at < len(text):
        character = text[at]
        if character in "\"'":
            at = _end_of_string(text, at)
            continue
        if character == "#":
            at = text.find("\n", at) if "\n" in text[at:] else len(text)
            continue
        depth += (character in _OPENING) - (character in _CLOSING)
        at += 1
        if character == "\n" and depth <= 0:
            break
    return at


def _end_of_string(text: str, at: int) -> int:
    quote = text[at : at + 3] if text[at : at + 3] in {'"""', "'''"} else text[at]
    place = at + len(quote)
    while place < len(text):
        if text[place] == "\\" and quote[0] == '"':
            place += 2
        elif text.startswith(quote, place):
            place += len(quote)
            while len(quote) > 1 and text.startswith(quote[0], place):  # up to two quotes may end the content
                place += 1
            return place
        else:
            place += 1
    return place
