"""Read the words after the function, ``lr=1e-3 layers=[1,2] data/train``, as Python values."""

from __future__ import annotations

import ast
import difflib
import inspect
import re
import shlex
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from helpers.cli.kinds import fit_kind, kinds_of
from helpers.errors import InvalidRequest
from helpers.submission.arguments import RESERVED

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_KEYWORD = re.compile(r"([^\W\d]\w*)=(.*)", re.DOTALL)
_WORDS = {"true": True, "false": False}
_SHELL_OPTIONS = (*RESERVED, "wait", "follow")


_NEAR = 0.75  # of an option's name: one letter off; what is farther off is an argument that is remembered wrongly
_NEVER_MEANT = frozenset({"setup", "slurm"})  # they run or write what they are given


@dataclass(frozen=True)
class Words:
    """The arguments of a call, still as text.

    Args:
        positional: Those without a name.
        named: Those written ``name=text``.
    """

    positional: tuple[str, ...]
    named: dict[str, str]


def split_words(words: Sequence[str]) -> Words:
    """Tell ``name=text`` from positional arguments.

    Raises:
        InvalidRequest: If a name comes twice.
    """
    positional: list[str] = []
    named: dict[str, str] = {}
    for word in words:
        match = _KEYWORD.fullmatch(word)
        if match is None:
            positional.append(word)
        elif match[1] in named:
            raise InvalidRequest(f"{match[1]} is given twice: {match[1]}={named[match[1]]} and {word}.")
        else:
            named[match[1]] = match[2]
    return Words(tuple(positional), named)


def parse_value(text: str, annotation: Any = inspect.Parameter.empty) -> Any:
    """Read one value: a Python literal where it is one, ``true`` and ``false``, else the text itself.

    Args:
        text: What was typed.
        annotation: Of the parameter that it is for; one that takes text gets the text as it stands, so that
            ``version=1.10`` for ``version: str`` does not become a number.
    """
    if _takes_text(annotation):
        return text
    if text in _WORDS:
        return _WORDS[text]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # "1if" and the like: whatever is no literal is text
            return ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return text


def parse_call(function: Callable[..., Any], words: Words) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the positional and the keyword arguments for ``function``.

    Raises:
        InvalidRequest: If a name is an option of the command that was written like an argument, or a value is not of
            the kind that its parameter is annotated with.
    """
    parameters = _parameters(function)
    _refuse_misplaced_options(function, parameters, words.named)
    kinds = kinds_of(function)
    names = [name for name, parameter in parameters.items() if _is_positional(parameter)]
    names += [""] * len(words.positional)
    args = tuple(_read(name, text, kinds) for name, text in zip(names, words.positional, strict=False))
    return args, {name: _read(name, text, kinds) for name, text in words.named.items()}


def _read(name: str, text: str, kinds: Mapping[str, Any]) -> Any:
    kind = kinds.get(name, inspect.Parameter.empty)
    return fit_kind(name, text, parse_value(text, kind), kind)


def parse_slurm_options(words: Sequence[str]) -> dict[str, Any]:
    """Read ``key=value`` for sbatch: text, but ``true`` or no value for a bare flag, ``none`` to remove one.

    Raises:
        InvalidRequest: If there is no name.
    """
    known = {"true": True, "false": False, "none": None}
    options: dict[str, Any] = {}
    for word in words:
        name, has_value, text = word.removeprefix("--").partition("=")
        if not name:
            raise InvalidRequest(
                f"--slurm takes an sbatch option by its long name; got {word!r}.", hint="--slurm constraint=h100"
            )
        options[name] = known.get(text.lower(), text) if has_value else True
    return options


def options_instead_of_keywords(hint: str) -> str:
    """Rewrite a hint for Python, ``gpus=4``, for the shell: ``--gpus 4``."""
    if any(call in hint for call in ("submit_array(", "Executor(", "bash -c ")):
        return hint  # Python that stays Python, or a line of the caller's own
    names = "|".join(_SHELL_OPTIONS)
    hint = re.sub(r'\bslurm=\{"([\w-]+)": "([^"]*)"\}', r"--slurm \1=\2", hint)
    hint = re.sub(r'\bsetup=\["([^"]*)"\]', lambda match: f"--setup {shlex.quote(match[1])}", hint)
    hint = re.sub(rf"\buse ({names})= instead", lambda match: f"use {_option(match[1])} instead", hint)
    hint = re.sub(r"\bsubmit\(…(?:, )?([^)]*)\)", r"\1", hint)
    hint = re.sub(r"\brequeue=False\b", "--no-requeue", hint)
    hint = re.sub(r"\b(requeue|dry_run)=True\b", lambda match: _option(match[1]), hint)
    given = rf'(?<![\w-])({names})=(?:"([^"]*)"|([^\s,;)"\[]+))'
    return re.sub(given, lambda match: f"{_option(match[1])} {match[2] or match[3]}", hint).strip()


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _parameters(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    try:
        return dict(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return {}


def _is_positional(parameter: inspect.Parameter) -> bool:
    return parameter.kind in {inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD}


def _takes_text(annotation: Any) -> bool:
    return annotation is str or (isinstance(annotation, str) and annotation == "str")


def _refuse_misplaced_options(
    function: Callable[..., Any], parameters: dict[str, inspect.Parameter], named: dict[str, str]
) -> None:
    takes_any = any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters.values())
    for name, text in named.items():
        if not parameters or name in parameters:
            continue
        options = [option for option in _SHELL_OPTIONS if option not in _NEVER_MEANT]
        near = difflib.get_close_matches(name, [*parameters, *options], n=1, cutoff=_NEAR)
        meant = name if name in _SHELL_OPTIONS else near[0] if near and not takes_any else None
        if meant in _SHELL_OPTIONS:
            title = getattr(function, "__name__", repr(function))
            raise InvalidRequest(
                f"{title} has no parameter {name!r}; what the job asks for is written as an option.",
                hint=f"{_option(meant)} {text}",
            )
