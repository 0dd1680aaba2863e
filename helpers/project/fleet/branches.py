"""Bring a newer template to many projects: a branch in each, made beside the work tree, which stays as it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from helpers.errors import HelpersError, InvalidRequest
from helpers.project.template.repository import answer, git, is_under_git
from helpers.project.template.stamp import read_stamp
from helpers.project.template.update import Update, update

if TYPE_CHECKING:
    from pathlib import Path

    from helpers.project.template.checkout import Checkouts

_NO_HOOKS = ("-c", "core.hooksPath=/dev/null")


@dataclass(frozen=True, kw_only=True)
class Branch:
    """What became of one project.

    Args:
        project: Its folder.
        name: The branch that was made; empty where none was.
        outcome: In a sentence.
        is_done: Whether nothing is left for a person to settle.
    """

    project: Path
    name: str = ""
    outcome: str
    is_done: bool


def update_on_branch(project: Path, room: Checkouts, *, to: str | None = None) -> Branch:
    """Merge a newer template into a new branch of a project, and commit it there; an error becomes the outcome."""
    try:
        return _update(project, room, to)
    except (HelpersError, OSError) as error:
        outcome = f"{error.message} {error.hint}".strip() if isinstance(error, HelpersError) else str(error)
        return Branch(project=project, outcome=outcome, is_done=False)


def _update(project: Path, room: Checkouts, to: str | None) -> Branch:
    stamp = read_stamp(project)
    commit = room.commit(stamp.template, to)
    if not is_under_git(project) or answer(project, "rev-parse", "--show-prefix") != "":
        raise InvalidRequest(f"{project} is not the root of a git repository.")
    if answer(project, "rev-parse", "--quiet", "--verify", "HEAD") is None:
        raise InvalidRequest(f"{project} has no commit yet.")
    name = f"template-{commit[:8]}"
    if answer(project, "rev-parse", "--quiet", "--verify", f"refs/heads/{name}"):
        return Branch(project=project, name=name, outcome="the branch is there already", is_done=True)
    folder = room.folder / f"worktree{len(list(room.folder.glob('worktree*')))}"
    git(project, *_NO_HOOKS, "worktree", "add", "--quiet", "-b", name, str(folder))
    is_kept = False
    try:
        done = update(folder, room, to=commit)
        if done.changes and not done.conflicts:
            _commit(folder, done)
            is_kept = True
    finally:
        git(project, "worktree", "remove", "--force", str(folder))
        if not is_kept:
            git(project, "branch", "--quiet", "-D", name)
    return _outcome(project, name, done)


def _commit(folder: Path, done: Update) -> None:
    """Commit without the project's hooks: its tools may not be installed here; CI or the reviewer runs them."""
    git(folder, "add", "--all")
    message = f"Update the template from {done.old.name} to {done.new.name}"
    git(folder, *_NO_HOOKS, "-c", "user.useConfigOnly=true", "commit", "--quiet", "--message", message)


def _outcome(project: Path, name: str, done: Update) -> Branch:
    if done.conflicts:
        outcome = f"conflicts in {', '.join(done.conflicts)}; there: helpers template update --to {done.new.commit}"
        return Branch(project=project, outcome=outcome, is_done=False)
    if not done.changes:
        return Branch(project=project, outcome=f"up to date with {done.new.name}", is_done=True)
    return Branch(project=project, name=name, outcome=f"{len(done.changes)} files", is_done=True)
