"""Read the project's ``.env``: secrets that the job needs and that no log, script or record may show."""

from __future__ import annotations

import re
from pathlib import Path

from helpers.errors import InvalidRequest

_LINE = re.compile(r"(?:export\s+)?(?P<name>[A-Za-z_][A-Za-z0-9_]*)\s*=\s*(?P<value>.*)", re.DOTALL)
_QUOTED = re.compile(r"""(?:'(?P<single>[^']*)'|"(?P<double>(?:[^"\\]|\\.)*)")\s*(?:\#.*)?""", re.VERBOSE | re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}
_NAME = ".env"


def read_secrets(folder: Path) -> dict[str, str]:
    """Return what the ``.env`` in a folder says; nothing where there is none.

    Nothing in it is executed or filled in. A name without a value (``KEY=``) is one that has not been filled in.

    Args:
        folder: That of the project, or the one that is worked in, where there is no project.

    Raises:
        InvalidRequest: For a line that is no ``KEY=VALUE``, by its number: its text might be the secret.
    """
    file = folder / _NAME
    try:
        text = file.read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidRequest(f"{file} cannot be read: {type(error).__name__}.", hint=f"ls -l {file}") from error
    return parse_secrets(text, file)


def parse_secrets(text: str, file: Path = Path(_NAME)) -> dict[str, str]:
    """Return the values of ``KEY=VALUE`` lines, with quotes as in a shell, and comments; see :func:`read_secrets`."""
    secrets: dict[str, str] = {}
    lines = iter(enumerate(text.removeprefix("\ufeff").split("\n"), 1))
    for number, line in lines:
        stripped = line.strip()
        if not stripped or stripped.startswith("#"):
            continue
        match = _LINE.fullmatch(stripped)
        if match is None:
            raise _wrong(file, number)
        value = match["value"]
        if value[:1] in {"'", '"'}:
            while _QUOTED.fullmatch(value) is None:  # a key file: the value goes on until its quote is closed
                following = next(lines, None)
                if following is None:
                    raise _wrong(file, number)
                value += "\n" + following[1]
            secrets[match["name"]] = _unquote(value)
        elif bare := re.split(r"(?:^|\s)#", value, maxsplit=1)[0].strip():
            secrets[match["name"]] = bare
    if any("\0" in value for value in secrets.values()):
        raise InvalidRequest(f"{file} holds a NUL character, which no variable can.")
    return secrets


def _unquote(value: str) -> str:
    match = _QUOTED.fullmatch(value)
    if match is None:
        raise AssertionError("it was matched before")
    if match["single"] is not None:
        return match["single"]
    return re.sub(r"\\(.)", lambda found: _ESCAPES.get(found[1], found[1]), match["double"], flags=re.DOTALL)


def _wrong(file: Path, number: int) -> InvalidRequest:
    return InvalidRequest(f"{file}:{number} is no KEY=VALUE.", hint="KEY='a value with spaces'")
