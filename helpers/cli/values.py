"""Read the words after the function, ``lr=1e-3 layers=[1,2] data/train``, as Python values."""

from __future__ import annotations

import ast
import difflib
import inspect
import re
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from helpers.errors import InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_KEYWORD = re.compile(r"([^\W\d]\w*)=(.*)", re.DOTALL)
_WORDS = {"true": True, "false": False}
_SHELL_OPTIONS = (
    "gpus", "nodes", "processes", "cpus", "mem", "time", "partition", "account", "qos", "name", "setup",
    "cluster", "profile", "slurm", "requeue", "dry_run", "wait", "follow",
)  # fmt: skip


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
        InvalidRequest: If a name is an option of the command that was written like an argument.
    """
    parameters = _parameters(function)
    _refuse_misplaced_options(function, parameters, words.named)
    annotations = [parameter.annotation for parameter in parameters.values() if _is_positional(parameter)]
    annotations += [inspect.Parameter.empty] * len(words.positional)
    args = tuple(parse_value(text, annotation) for text, annotation in zip(words.positional, annotations, strict=False))
    kwargs = {name: parse_value(text, _annotation(parameters, name)) for name, text in words.named.items()}
    return args, kwargs


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
    hint = re.sub(r"\bsubmit\(…(?:, )?([^)]*)\)", r"\1", hint)
    hint = re.sub(r"\b(requeue|dry_run)=True\b", lambda match: f"--{match[1].replace('_', '-')}", hint)
    names = "|".join(_SHELL_OPTIONS)
    return re.sub(rf'(?<![\w-])({names})=(?:"([^"]*)"|([^\s,;)"\[]+))', r"--\1 \2\3", hint).strip()


def _parameters(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    try:
        return dict(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return {}


def _is_positional(parameter: inspect.Parameter) -> bool:
    return parameter.kind in {inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD}


def _annotation(parameters: dict[str, inspect.Parameter], name: str) -> Any:
    return parameters[name].annotation if name in parameters else inspect.Parameter.empty


def _takes_text(annotation: Any) -> bool:
    return annotation is str or (isinstance(annotation, str) and annotation == "str")


def _refuse_misplaced_options(
    function: Callable[..., Any], parameters: dict[str, inspect.Parameter], named: dict[str, str]
) -> None:
    takes_any = any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters.values())
    for name, text in named.items():
        if not parameters or name in parameters:
            continue
        near = difflib.get_close_matches(name, [*parameters, *_SHELL_OPTIONS], n=1)
        meant = name if name in _SHELL_OPTIONS else near[0] if near and not takes_any else None
        if meant in _SHELL_OPTIONS:
            title = getattr(function, "__name__", repr(function))
            raise InvalidRequest(
                f"{title} has no parameter {name!r}; what the job asks for is written as an option.",
                hint=f"--{meant.replace('_', '-')} {text}",
            )
