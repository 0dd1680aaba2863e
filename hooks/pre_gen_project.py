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
# A package of one of these names would hide the one that the project imports, or that something imports for it; a
# distribution of one of these names would be taken by pip for that dependency.
IMPORTED = {"helpers", "matplotlib", "numpy", "pre-commit", "pytest", "ruff", "torch", "tqdm", "typer"}
IMPORTED_BY_THOSE = {
    "annotated-doc", "annotated-types", "cfgv", "click", "cloudpickle", "contourpy", "cycler", "dateutil", "distlib",
    "example", "filelock", "fonttools", "fsspec", "functorch", "identify", "iniconfig", "isympy", "jinja2",
    "kiwisolver", "markdown-it", "markdown-it-py", "markupsafe", "mdurl", "mpl-toolkits", "mpmath", "networkx",
    "nodeenv", "nvidia", "nvidia-ml-py", "packaging", "pil", "pillow", "pip", "platformdirs", "pluggy", "psutil",
    "py", "pydantic", "pydantic-core", "pygments", "pylab", "pynvml", "pyparsing", "python-dateutil",
    "python-discovery", "pyyaml", "rich", "safetensors", "setuptools", "shellingham", "six", "submitit", "sympy",
    "torchgen", "triton", "typing-extensions", "typing-inspection", "tzdata", "virtualenv", "wheel", "xxhash", "yaml",
}  # fmt: skip
# In the standard library of another Python than the one that bakes, from 3.11 on.
STANDARD_ELSEWHERE = {
    "aifc", "annotationlib", "asynchat", "asyncore", "audioop", "cgi", "cgitb", "chunk", "compression", "crypt",
    "distutils", "imghdr", "imp", "lib2to3", "mailcap", "msilib", "nis", "nntplib", "ossaudiodev", "pipes", "smtpd",
    "sndhdr", "spwd", "sunau", "telnetlib", "uu", "xdrlib",
}  # fmt: skip
RESERVED = IMPORTED | IMPORTED_BY_THOSE | STANDARD_ELSEWHERE | {"slurm-torch-helpers", "src", "test", "tests"}

ONE_LINE = ("project_name", "description", "author_name")
# Lines, control characters (which no YAML may hold), and what no UTF-8 file may.
BREAKS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufffe\uffff]")
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
    overlay = [("lab_overlay", overlay_problem(answers.get("lab_overlay", "")))]
    return [f"{field} {problem}, got {answers[field]!r}" for field, problem in texts + names + overlay if problem]


def text_problem(text: str) -> str | None:
    """Return the rule that ``text`` breaks, if any: it is shown as a title and stored as one line."""
    if not text.strip() or BREAKS.search(text):
        return "must be one line of text"
    return None if text == text.strip() else "must not begin or end with a space"


def name_problem(name: str, pattern: str, rule: str) -> str | None:
    """Return the rule that ``name`` breaks, if any: the one that ``pattern`` puts down, or a general one."""
    if not re.fullmatch(pattern, name):
        return rule
    if len(name) > MAX_LENGTH:
        return f"must be at most {MAX_LENGTH} characters long"
    if is_taken(name):
        return "must not be a name that Python or a dependency uses"
    return None


def overlay_problem(text: str) -> str | None:
    """Return the rule that ``text`` breaks, if any: the hook that copies the lab's files runs in the new project."""
    source, _, ref = text.partition("#")
    if ref.startswith("-"):
        return "must have a branch, tag or commit after '#'"
    if not text or re.match(r"[\w.+-]+://|[\w.-]+@[\w.-]+:", source):
        return None
    if not source.startswith(("/", "~")):
        return "must be empty, a whole path (/… or ~/…) or a git URL"
    from pathlib import Path  # here, since each bake pays for what stands above

    return None if Path(source).expanduser().is_dir() else "must name a folder that exists"


def is_taken(name: str) -> bool:
    """Say whether Python, or something that the project imports, already goes by ``name``."""
    plain = re.sub(r"[-_.]+", "-", name.lower())  # as pip compares them
    return keyword.iskeyword(name) or plain.replace("-", "_") in sys.stdlib_module_names or plain in RESERVED


def report(found: list[str]) -> str:
    """Return the problems as the text that the user reads."""
    return "\n".join(["No project was made. Please change:", *(f"  {problem}" for problem in found)])


if __name__ == "__main__" and (found := problems(json.loads(ANSWERS))):
    sys.exit(report(found))
