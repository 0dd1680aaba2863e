"""Lay the lab's files over the fresh project, stamp it, put it under git, and say what to do next.

Cookiecutter runs this in the new project's folder. No git step may cost the user the project: one that does
not work is skipped, and said in a line with the command that does it; the exit code stays 0. Only a lab's
overlay that cannot be had ends the bake. No identity is made up, nothing else is downloaded, nothing is deleted.
"""

from __future__ import annotations

import contextlib
import fnmatch
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ANSWERS = r"""{{ cookiecutter | tojson }}"""  # JSON escapes every quote in a value: none can end this string

TIMEOUT_S = 60  # a git hook or a signing program that waits for somebody must not hold the bake
STAMP = Path(".template.json")
APPENDED = ".append"  # the end of an overlay's file that is added to the template's, not put in its place
MESSAGE = "Start from cookiecutter-slurm-torch"
BY_HAND = f"git add --all && git commit --message '{MESSAGE}'"
# Git sets these while it runs a hook of another repository; they would send our commands there.
FOREIGN = {"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_COMMON_DIR"}


def main(answers: dict) -> None:
    """Finish the project in the current folder, as far as that goes, and print the next steps."""
    overlay = lay_over(answers) if answers.get("lab_overlay") else None
    add_hashes(answers, overlay)
    obstacle = why_no_repository(under_cruft="_commit" in answers) or start_repository()
    requirement = re.search(r'"slurm-torch-helpers @ (.*)"', Path("pyproject.toml").read_text(encoding="utf-8"))
    print("\n".join(next_steps(answers, requirement[1] if requirement else "", obstacle, cure_for_a_shared_clone())))


# --- the lab's own files -----------------------------------------------------------------------


def lay_over(answers: dict) -> dict[str, str | None]:
    """Copy the lab's files over the project; return where they came from, for the stamp.

    The answer is a folder or a git URL, with ``#<branch, tag or commit>`` after it if need be.
    """
    source, _, ref = answers["lab_overlay"].partition("#")
    folder = Path(source).expanduser()
    if folder.is_dir() and not ref:
        copy_tree(folder, answers)
        there = ("git", "-C", str(folder), "--git-dir=.git")  # told the repository, git asks not whose it is
        is_clean = ask(*there, "status", "--porcelain") == ""
        return {"source": source, "commit": ask(*there, "rev-parse", "HEAD") if is_clean else None}
    import tempfile  # here, since each bake pays for what stands above

    with tempfile.TemporaryDirectory() as room:
        clone = str(Path(room, "overlay"))
        where = str(folder) if folder.is_dir() else source
        error = run("git", "clone", "--quiet", where, clone, settings=trusting_settings(Path(room)))
        if error := error or (ref and git("-C", clone, "checkout", "--quiet", ref)):
            sys.exit(f"No project was made: lab_overlay {answers['lab_overlay']} cannot be had ({error}).")
        copy_tree(Path(clone), answers)
        return {"source": source, "commit": ask("git", "-C", clone, "rev-parse", "HEAD")}


def trusting_settings(room: Path) -> Path:
    """Write the user's settings of git, with repositories of other owners allowed: a lab's files are one person's.

    A clone runs nothing of what is set there; git reads this from no option for the process that it starts there.
    """
    theirs = os.environ.get("GIT_CONFIG_GLOBAL")
    own = [theirs] if theirs else [f"{os.environ.get('XDG_CONFIG_HOME') or '~/.config'}/git/config", "~/.gitconfig"]
    included = "".join(f"[include]\n\tpath = {json.dumps(path)}\n" for path in own)
    file = room / "gitconfig"
    file.write_text(f"{included}[safe]\n\tdirectory = *\n", encoding="utf-8")
    return file


def copy_tree(folder: Path, answers: dict) -> None:
    """Copy each file of an overlay, with answers filled in, in its path too."""
    for path in sorted(folder.rglob("*")):
        relative = path.relative_to(folder)
        if relative.parts[0] == ".git" or not path.is_file():
            continue
        content = path.read_bytes()
        with contextlib.suppress(UnicodeDecodeError):  # it is no text
            content = fill_in(content.decode("utf-8"), answers).encode("utf-8")
        target = Path(fill_in(str(relative), answers))
        if target.is_absolute() or ".." in target.parts:
            sys.exit(f"No project was made: {relative} of the overlay would be written outside of it, to {target}.")
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.suffix == APPENDED:
            target = target.with_suffix("")
            content = (target.read_bytes() if target.exists() else b"") + content
        else:
            target.touch()
            shutil.copymode(path, target)
        target.write_bytes(content)


def fill_in(text: str, answers: dict) -> str:
    """Return ``text`` with answers in place of their names; what names no answer stays as it is."""
    pattern = r"\{" r"\{\s*cookiecutter\.(\w+)\s*\}" r"\}"  # in parts: cookiecutter renders this file, too
    return re.sub(pattern, lambda found: str(answers.get(found[1], found[0])), text)


# --- the stamp ---------------------------------------------------------------------------------


def add_hashes(answers: dict, overlay: dict[str, str | None] | None) -> None:
    """Add to the stamp the sha256 of each file that is the template's, or the template's and the user's."""
    stamp = json.loads(STAMP.read_text(encoding="utf-8"))
    stamp.update(overlay=overlay, files={}, shared={})
    for path in sorted(path for path in Path().rglob("*") if path.is_file() and path.parts[0] != ".git"):
        name = path.as_posix()
        if path == STAMP or is_one_of(name, answers["_owned_by_user"]):
            continue
        owner = "shared" if is_one_of(name, answers["_shared"]) else "files"
        stamp[owner][name] = hashlib.sha256(path.read_bytes()).hexdigest()
    STAMP.write_text(json.dumps(stamp, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def is_one_of(name: str, patterns: list[str]) -> bool:
    """Say whether a path is one of these; ``*`` stands for slashes, too."""
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


# --- git ---------------------------------------------------------------------------------------


def why_no_repository(*, under_cruft: bool) -> str | None:
    """Return what speaks against making a repository here, and how to make it; None if nothing does."""
    if under_cruft:  # it compares two renders, of which neither may have a .git
        return f"no repository yet, since cruft adds a file after this. By hand: git init && {BY_HAND}"
    if shutil.which("git") is None:
        return f"no repository yet, since git is not installed. Once it is: git init && {BY_HAND}"
    if any((folder / ".git").exists() for folder in Path.cwd().parents):  # a repository or a linked work tree
        return f"no repository of its own, since the folder is inside one already. To add it there: {BY_HAND}"
    return None


def start_repository() -> str | None:
    """Make a repository with one commit; return the step that did not work and how to do it, else None."""
    if error := git("init", "--quiet"):
        return f"`git init` did not work ({error}). By hand: git init && {BY_HAND}"
    # `git init --initial-branch` is unknown to git before 2.28, which clusters still have.
    Path(".git", "HEAD").write_text("ref: refs/heads/main\n", encoding="utf-8")
    if error := git("add", "--all"):
        return f"`git add` did not work ({error}). By hand: {BY_HAND}"
    error = git("-c", "maintenance.auto=false", "commit", "--quiet", "--message", MESSAGE)
    if error and (git("var", "GIT_AUTHOR_IDENT") or git("var", "GIT_COMMITTER_IDENT")):
        return (
            "no first commit yet, since git does not know you. Tell it: git config --global user.name '…' "
            f"&& git config --global user.email you@example.org; then: {BY_HAND}"
        )
    if error:
        return f"no first commit yet ({error}). By hand: {BY_HAND}"
    if all(map(shutil.which, ("pre-commit", "ruff", "helpers"))):  # all that a commit will need; else `make setup`
        run("pre-commit", "install")
    return None


def next_steps(answers: dict[str, str], requirement: str, obstacle: str | None, cure: str | None = None) -> list[str]:
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
        lines.append("  For others to install it, push the template, and name its URL in that line of pyproject.toml.")
        if cure:
            lines.append(f"  The clone belongs to somebody else; before make setup, tell git that you trust it: {cure}")
    if obstacle:
        lines.append(f"git: {obstacle}")
    return lines


def cure_for_a_shared_clone() -> str | None:
    """Return the line that makes git trust the template's clone, where it is another's and not trusted yet."""
    folder = Path(json.loads(STAMP.read_text(encoding="utf-8"))["template"])
    if not folder.is_dir() or folder.stat().st_uid == os.geteuid():  # by far the most, and they need no process
        return None
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        said = start("git", "ls-remote", "--quiet", str(folder), "HEAD").stderr.splitlines()
        return next((line.strip() for line in said if line.strip().startswith("git config")), None)
    return None


def git(*arguments: str) -> str | None:
    """Run git, which must not guess an identity from the host's name; return None or its complaint."""
    return run("git", "-c", "user.useConfigOnly=true", *arguments)


def run(*command: str, settings: Path | None = None) -> str | None:
    """Run ``command`` in silence; return None if it worked, else git's reason or the last line of what it said."""
    try:
        done = start(*command, settings=settings)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if done.returncode == 0:
        return None
    said = (done.stderr or done.stdout).strip().splitlines() or [f"exit code {done.returncode}"]
    return next((line for line in said if line.startswith("fatal: ")), said[-1])


def ask(*command: str) -> str | None:
    """Return what ``command`` prints, or None if it fails."""
    try:
        done = start(*command)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def start(*command: str, settings: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run ``command`` to its end, where no other repository and no terminal can reach it.

    ``settings`` is a file in place of git's for the user, for the processes that git starts, too.
    """
    environment = {name: value for name, value in os.environ.items() if name not in FOREIGN}
    if settings is not None:
        environment["GIT_CONFIG_GLOBAL"] = str(settings)
    return subprocess.run(
        command,
        env=environment | {"GIT_TERMINAL_PROMPT": "0"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=TIMEOUT_S,
        check=False,
    )


if __name__ == "__main__":
    main(json.loads(ANSWERS))
