"""Put the fresh project under git, and say what to do next.

Cookiecutter runs this in the new project's folder. Nothing here may cost the user the project: a git step
that does not work is skipped, and said in a line with the command that does it; the exit code stays 0.
No identity is made up, nothing is downloaded, nothing is deleted.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

ANSWERS = r"""{{ cookiecutter | tojson }}"""  # JSON escapes every quote in a value: none can end this string

TIMEOUT_S = 60  # a git hook or a signing program that waits for somebody must not hold the bake
MESSAGE = "Start from cookiecutter-slurm-torch"
BY_HAND = f"git add --all && git commit --message '{MESSAGE}'"
# Git sets these while it runs a hook of another repository; they would send our commands there.
FOREIGN = {"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_COMMON_DIR"}


def main(answers: dict[str, str]) -> None:
    """Put the project in the current folder under git, as far as that goes, and print the next steps."""
    obstacle = why_no_repository(under_cruft="_commit" in answers) or start_repository()
    requirement = re.search(r'"slurm-torch-helpers @ (.*)"', Path("pyproject.toml").read_text(encoding="utf-8"))
    print("\n".join(next_steps(answers, requirement[1], obstacle)))


def why_no_repository(*, under_cruft: bool) -> str | None:
    """Return what speaks against making a repository here, and how to make it; None if nothing does."""
    if under_cruft:  # it compares two renders, of which neither may have a .git
        return f"no repository yet, since cruft adds a file after this. By hand: git init && {BY_HAND}"
    if shutil.which("git") is None:
        return f"no repository yet, since git is not installed. Once it is: git init && {BY_HAND}"
    if git("rev-parse", "--is-inside-work-tree") is None:
        return f"no repository of its own, since the folder is inside one already. To add it there: {BY_HAND}"
    return None


def start_repository() -> str | None:
    """Make a repository with one commit; return the step that did not work and how to do it, else None."""
    # `git init --initial-branch` is unknown to git before 2.28, which clusters still have.
    for step in (("init", "--quiet"), ("symbolic-ref", "HEAD", "refs/heads/main"), ("add", "--all")):
        if error := git(*step):
            return f"`git {step[0]}` did not work ({error}). By hand: git init && {BY_HAND}"
    if git("var", "GIT_AUTHOR_IDENT") or git("var", "GIT_COMMITTER_IDENT"):
        return (
            "no first commit yet, since git does not know you. Tell it: git config --global user.name '…' "
            f"&& git config --global user.email you@example.org; then: {BY_HAND}"
        )
    if error := git("commit", "--quiet", "--message", MESSAGE):
        return f"no first commit yet ({error}). By hand: {BY_HAND}"
    if shutil.which("pre-commit") and shutil.which("ruff"):  # all that a commit will need; else `make setup`
        run("pre-commit", "install")
    return None


def next_steps(answers: dict[str, str], requirement: str, obstacle: str | None) -> list[str]:
    """Return the lines that end the bake: what to type, and what is not as it should be."""
    folder = answers["project_slug"]
    lines = [
        f"Made {folder}/, with the package {answers['package_name']}. Next:",
        f"  cd {folder} && make setup && make train    (README.md tells the rest)",
    ]
    if requirement.startswith("file:"):
        lines.append(f"Trial: helpers comes from files, not from a commit: {requirement}")
    elif "file://" in requirement:
        lines.append(f"helpers comes from a clone that only this machine can reach: {requirement}")
    if obstacle:
        lines.append(f"git: {obstacle}")
    return lines


def git(*arguments: str) -> str | None:
    """Run git, which must not guess an identity from the host's name; return None or its complaint."""
    return run("git", "-c", "user.useConfigOnly=true", *arguments)


def run(*command: str) -> str | None:
    """Run ``command`` in silence; return None if it worked, else the last line of what it said."""
    environment = {name: value for name, value in os.environ.items() if name not in FOREIGN}
    try:
        done = subprocess.run(
            command,
            env=environment | {"GIT_TERMINAL_PROMPT": "0"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if done.returncode == 0:
        return None
    return next(reversed((done.stderr or done.stdout).strip().splitlines()), f"exit code {done.returncode}")


if __name__ == "__main__":
    main(json.loads(ANSWERS))
