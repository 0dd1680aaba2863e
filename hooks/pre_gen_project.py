"""Refuse answers that would give a broken project.

Cookiecutter runs this before it writes a file. ``template_extension.py`` asks the same ``problems`` earlier
still, before the project's folder is made; this hook is what holds when no question is asked (``--replay``).
"""

from __future__ import annotations

import json
import keyword
import re
import sys

ANSWERS = r"""{{ cookiecutter | tojson }}"""  # JSON escapes every quote in a value: none can end this string

MAX_LENGTH = 50  # characters of a folder or import name; the shell prompt and the job's name carry it
# A package of one of these names would hide the one that the project itself imports; a distribution of one of
# these names would be taken by pip for the project's own dependency.
IMPORTED = {"helpers", "matplotlib", "numpy", "pre-commit", "pytest", "ruff", "torch", "tqdm", "typer"}
RESERVED = IMPORTED | {"slurm-torch-helpers", "src", "test", "tests"}

ONE_LINE = ("project_name", "description", "author_name")
BREAKS = re.compile(r"[\x00-\x1f\x7f\x85\u2028\u2029\ud800-\udfff]")  # lines, and what no UTF-8 file may hold
NAMES = {
    "project_slug": (
        r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?",
        "must be letters, digits, '.', '_' or '-', with a letter or digit at both ends",
    ),
    "package_name": (
        r"[a-z][a-z0-9_]*",
        "must be lower-case letters, digits and '_', and begin with a letter",
    ),
}


def problems(answers: dict[str, str]) -> list[str]:
    """Return one sentence for each rule that ``answers`` break: the field, the rule, the value."""
    texts = [(field, text_problem(answers[field])) for field in ONE_LINE]
    names = [(field, name_problem(answers[field], *rule)) for field, rule in NAMES.items()]
    return [f"{field} {problem}, got {answers[field]!r}" for field, problem in texts + names if problem]


def text_problem(text: str) -> str | None:
    """Return the rule that ``text`` breaks, if any: it is shown as a title and stored as one line."""
    return None if text.strip() and not BREAKS.search(text) else "must be one line of text"


def name_problem(name: str, pattern: str, rule: str) -> str | None:
    """Return the rule that ``name`` breaks, if any: the one that ``pattern`` puts down, or a general one."""
    if not re.fullmatch(pattern, name):
        return rule
    if len(name) > MAX_LENGTH:
        return f"must be at most {MAX_LENGTH} characters long"
    if is_taken(name):
        return "must not be a name that Python or a dependency uses"
    return None


def is_taken(name: str) -> bool:
    """Say whether Python, or something that the project imports, already goes by ``name``."""
    plain = re.sub(r"[-_.]+", "-", name.lower())  # as pip compares them
    return keyword.iskeyword(name) or plain.replace("-", "_") in sys.stdlib_module_names or plain in RESERVED


def report(found: list[str]) -> str:
    """Return the problems as the text that the user reads."""
    return "\n".join(["No project was made. Please change:", *(f"  {problem}" for problem in found)])


if __name__ == "__main__" and (found := problems(json.loads(ANSWERS))):
    sys.exit(report(found))
