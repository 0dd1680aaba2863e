"""What the template's files may ask for while they are rendered.

Cookiecutter (and cruft) load this module from the template's root, because ``cookiecutter.json`` names it
under ``_extensions``. It makes names out of the project's name, writes answers as data (TOML, Markdown),
refuses bad answers before a folder is made, and works out where the template, and with it ``helpers``, comes from.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote, urlsplit

from cookiecutter.exceptions import FailedHookException
from jinja2 import pass_context
from jinja2.ext import Extension
from slugify import slugify

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jinja2 import Environment

DISTRIBUTION = "slurm-torch-helpers"
OWN_FOLDER = Path(__file__).resolve().parent
# Git sets these while it runs a hook of another repository; they would send our questions there.
FOREIGN = {"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_COMMON_DIR"}


class TemplateExtension(Extension):
    """Give the template its filters and functions."""

    def __init__(self, environment: Environment) -> None:
        super().__init__(environment)
        environment.filters.update(
            project_slug=project_slug, package_name=package_name, toml=toml_string, markdown=markdown
        )
        environment.globals.update(
            refuse_bad_answers=refuse_bad_answers,
            helpers_requirement=pass_context(
                lambda context: helpers_requirement(template_folder(environment, context["cookiecutter"]))
            ),
            template_stamp=lambda answers: template_stamp(template_folder(environment, answers), answers),
        )

    def preprocess(self, source: str, name: str | None, filename: str | None = None) -> str:
        """Keep an answer that looks like a template as it was typed.

        Cookiecutter renders what is given on its command line or in a configuration file, so that a
        description with ``{{x}}`` in it would be an error. Every template of ours names ``cookiecutter``.
        """
        if name is None and filename is None and not re.search(r"\{[{%][^}]*\bcookiecutter\b", source):
            return f"{{{{ {source!r} }}}}"
        return source


# --- names and answers -------------------------------------------------------------------------


def project_slug(project_name: str) -> str:
    """Return a folder name: ``My Net`` gives ``my-net``, ``torch`` gives ``torch-project``."""
    rules = answer_rules()
    slug = slugify(project_name, max_length=rules.MAX_LENGTH - len("-project"))
    return f"{slug}-project" if slug and rules.is_taken(slug) else slug


def package_name(slug: str) -> str:
    """Return an import name: ``my-net`` gives ``my_net``, ``2nd-try`` gives ``project_2nd_try``."""
    rules = answer_rules()
    name = slugify(slug, separator="_", max_length=rules.MAX_LENGTH - len("project_"))
    if name[:1].isdigit():
        return f"project_{name}"
    return f"{name}_project" if name and rules.is_taken(name) else name


def refuse_bad_answers(answers: Mapping[str, str]) -> str:
    """Stop the bake, before anything is written, if ``answers`` would give a broken project.

    Raises:
        FailedHookException: If a rule is broken; of this one, cookiecutter prints the message alone.
    """
    rules = answer_rules()
    if found := rules.problems(answers):
        raise FailedHookException(rules.report(found))
    return ""


def answer_rules() -> Any:
    """Return the module ``hooks/pre_gen_project.py``, where the rules for answers stand (once)."""
    path = OWN_FOLDER / "hooks" / "pre_gen_project.py"
    spec = importlib.util.spec_from_file_location("pre_gen_project", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def toml_string(text: str) -> str:
    """Return ``text`` as a TOML string, quotes included; JSON's escapes are TOML's, but for DEL."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def markdown(text: str) -> str:
    """Return ``text`` so that Markdown shows it as it was typed, with no more backslashes than that takes."""
    anywhere = r"[*`<\[]|\\(?=[!-/:-@\[-`{-~]|$)|&(?=#?\w+;)|~(?=~)|(?<!\w)_|_(?!\w)|(?<=\s)#"
    mathematics = r"\$(?=.*\$)"  # of GitHub's and GitLab's, between two of them
    at_start = r"^[#>|=~]|^[-+](?=\s|-|$)"
    shown = re.sub(f"{anywhere}|{mathematics}|{at_start}", r"\\\g<0>", text)
    return re.sub(r"^(\d{1,9})([.)])(?=\s|$)", r"\1\\\2", shown)


# --- where helpers comes from ------------------------------------------------------------------


def template_folder(environment: Environment, answers: Mapping[str, str]) -> Path:
    """Return the root of the template that is being rendered, where it stays: of a zip, a copy.

    The file of this module will not do: two bakes in one process share the module that the first one loaded.
    """
    if environment.loader is None:
        return OWN_FOLDER
    folder = Path(environment.loader.searchpath[0]).resolve().parent  # of {{cookiecutter.project_slug}}/
    return kept_copy(folder) if str(answers.get("_template", "")).lower().endswith(".zip") else folder


def kept_copy(folder: Path) -> Path:
    """Copy an unpacked zip to where it lasts, once for all with the same content; cookiecutter removes its own."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    content = hashlib.sha256()
    for path in files:
        content.update(f"{path.relative_to(folder)}\0".encode() + path.read_bytes())
    data = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share")
    kept = data / "slurm-torch-helpers" / "templates" / content.hexdigest()[:12]
    if not kept.is_dir():
        kept.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=kept.parent) as unfinished:
            copy = shutil.copytree(folder, Path(unfinished, "template"), ignore=shutil.ignore_patterns("__pycache__"))
            with contextlib.suppress(OSError):  # somebody else was quicker
                copy.rename(kept)
    return kept


def helpers_requirement(folder: Path) -> str:
    """Return the requirement that installs ``helpers`` at the very commit of the template in ``folder``.

    Returns:
        - ``slurm-torch-helpers @ git+https://…@<commit>`` where the commit is known to be on a remote,
        - ``slurm-torch-helpers @ git+file://localhost/…@<commit>`` where it is only in a local clone,
        - ``slurm-torch-helpers @ file:///…`` where no commit can be named (changed files, no git): for a trial.
    """
    commit = clean_commit(folder)
    url = commit_url(folder, commit) if commit else None
    # pip decodes these three (# % ?) before it splits a git+file URL, and then finds no folder.
    if url is None or (url.startswith("file:") and re.search("%(23|25|3F)", url)):
        return f"{DISTRIBUTION} @ file://{quote(str(folder))}"
    return f"{DISTRIBUTION} @ git+{url}@{commit}"


def template_stamp(folder: Path, answers: Mapping[str, str]) -> str:
    """Return ``.template.json``: the template, its commit and version, the answers; the keys are cruft's.

    The hook adds a hash of each file. Where no commit can be named it is null, and an update has to be told one.
    """
    commit = clean_commit(folder)
    url = commit_url(folder, commit) if commit else f"file://localhost{quote(str(folder))}"
    path = local_path(url.replace("file://localhost", "file://", 1))
    asked = {name: answer for name, answer in answers.items() if not name.startswith("_")}
    stamp = {
        "template": str(path) if path else url,
        "commit": commit,
        "checkout": None,
        "directory": None,
        "version": template_version(folder),
        "context": {"cookiecutter": asked},
    }
    return json.dumps(stamp, indent=2, ensure_ascii=False)


def template_version(folder: Path) -> str | None:
    """Return the template's release, which is the library's; None where its ``pyproject.toml`` is not there."""
    file = folder / "pyproject.toml"
    found = re.search(r'^version = "(.+)"$', file.read_text(encoding="utf-8"), re.MULTILINE) if file.exists() else None
    return found[1] if found else None


def clean_commit(folder: Path) -> str | None:
    """Return the commit that ``folder`` is an exact copy of; None if there is none, or if files were changed."""
    if git(folder, "rev-parse", "--show-prefix") != "" or git(folder, "status", "--porcelain") != "":
        return None
    return git(folder, "rev-parse", "HEAD")


def commit_url(folder: Path, commit: str) -> str:
    """Return a URL from which git can fetch ``commit``, which the clone in ``folder`` has.

    Follows ``origin`` while it is known to have the commit: cruft renders from a temporary clone of a clone.
    """
    visited: set[Path] = set()
    while folder not in visited:
        visited.add(folder)
        origin = git(folder, "remote", "get-url", "origin")
        if not origin or not git(folder, "branch", "--remotes", "--list", "origin/*", "--contains", commit):
            break
        path = local_path(origin)
        if path is None:
            return remote_url(origin)
        if git(folder / path, "cat-file", "-e", f"{commit}^{{commit}}") is None:
            break
        folder = (folder / path).resolve()
    return f"file://localhost{quote(str(folder))}"  # pip 23 refuses git+file:/// for want of a host


def local_path(origin: str) -> Path | None:
    """Return the folder that a remote's URL names; None if it is on another machine."""
    if origin.startswith("file://"):
        return Path(unquote(urlsplit(origin).path))
    if "://" in origin or re.match(r"[^/]+:", origin):
        return None
    return Path(origin)


def remote_url(origin: str) -> str:
    """Return a remote's URL as pip takes it, without a password or token that may stand in it."""
    if "://" not in origin:  # git's short form, user@host:path
        host, path = origin.split(":", 1)
        return f"ssh://{host}/{quote(path.lstrip('/'), safe='/~')}"
    url = urlsplit(origin)
    host = url.netloc.rpartition("@")[2]
    if url.scheme == "ssh" and url.username:  # who logs in is part of the address; over https it is a credential
        host = f"{url.username}@{host}"
    return f"{url.scheme}://{host}{quote(url.path, safe='/~%')}"


def git(folder: Path, *arguments: str) -> str | None:
    """Return what git says in ``folder``, a clone or a bare repository, or None if it fails or is not there."""
    # Of a lab's shared clone git asks for no trust where it is told the repository; older ones take no option for it.
    repository = ".git" if (folder / ".git").exists() else "."
    command = ["git", "-C", str(folder), f"--git-dir={repository}", *arguments]
    environment = {name: value for name, value in os.environ.items() if name not in FOREIGN}
    try:
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None
