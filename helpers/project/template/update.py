"""Bring what the template has changed since into a project, and leave what is the user's alone."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from helpers.errors import InvalidRequest
from helpers.project.template.bits import add_ignored, ignored_in
from helpers.project.template.merging import Action, Change, Trees, merge_trees
from helpers.project.template.ownership import Ownership
from helpers.project.template.pin import Pin
from helpers.project.template.rendering import finish_rendering, require_cookiecutter, start_rendering
from helpers.project.template.repository import is_clean, is_under_git
from helpers.project.template.stamp import CRUFT, STAMP, Stamp, read_stamp, write_stamp

if TYPE_CHECKING:
    from pathlib import Path

    from helpers.project.template.checkout import Checkouts


@dataclass(frozen=True, kw_only=True)
class Update:
    """What an update did.

    Args:
        old: The stamp before.
        new: The stamp after.
        changes: What became of files, in the order of their paths; empty where all was up to date.
    """

    old: Stamp
    new: Stamp
    changes: tuple[Change, ...]

    @property
    def conflicts(self) -> list[str]:
        """The files that a person has to look at."""
        return [change.path for change in self.changes if change.action is Action.CONFLICT]


def update(
    project: Path,
    room: Checkouts,
    *,
    to: str | None = None,
    base: str | None = None,
    allow_dirty: bool = False,
) -> Update:
    """Merge a newer template into a project, three-way: the template then, the template now, the project.

    Args:
        project: The project's root.
        room: Where templates are fetched to.
        to: A commit, tag or branch of the template; None for its newest.
        base: The commit that the project came from, where its stamp names none.
        allow_dirty: Go on where files are not committed, so that the update cannot be told from them.

    Raises:
        InvalidRequest: If there is no stamp, the work tree is not clean, or the template cannot be had or rendered.
    """
    require_cookiecutter()
    old = read_stamp(project)
    _require_clean(project, allow_dirty=allow_dirty)
    commit = room.commit(old.template, to)
    begun = base or old.commit
    if begun is None:
        raise InvalidRequest(
            f"{project} was made from changed files, so its stamp names no commit of the template.",
            hint="helpers template update --from COMMIT names the one that comes nearest",
        )
    begun = room.commit(old.template, begun)
    trees, new = _render(project, room, old, begun=begun, commit=commit)
    paths = _paths(old, new, Ownership.read(room.at(old.template, commit)), trees)
    changes = merge_trees(trees, paths)
    told = {change.path for change in changes}
    changes += [Change(path, Action.UPDATED) for path in trees.pin.move_in(project) if path not in told]
    if old.left is not None:
        then = ignored_in(trees.old)
        if add_ignored(project, [line for line in ignored_in(trees.new) if line not in then]):
            changes.append(Change(".gitignore", Action.UPDATED))
        files, shared = (
            {path: made for path, made in table.items() if path in paths} for table in (new.files, new.shared)
        )
        new = replace(new, left=old.left, files=files, shared=shared)
    write_stamp(project, new)
    return Update(old=old, new=new, changes=tuple(changes))


def _require_clean(project: Path, *, allow_dirty: bool) -> None:
    if allow_dirty:
        return
    if not is_under_git(project):
        raise InvalidRequest(
            f"{project} is not under git, so an update could not be taken back.",
            hint="git init && git add --all && git commit -m 'Before the update', or --allow-dirty",
        )
    if not is_clean(project):
        raise InvalidRequest(
            f"{project} has changes that are not committed; the update could not be told from them.",
            hint="commit or stash them (git status lists them), or --allow-dirty",
        )


def _render(project: Path, room: Checkouts, old: Stamp, *, begun: str, commit: str) -> tuple[Trees, Stamp]:
    """Make the project anew, from the template as it was and as it is, with the project's own answers."""
    folder = room.folder / f"renders{len(list(room.folder.glob('renders*')))}"
    started = [
        start_rendering(room.at(old.template, ref), answers, folder / name, source=old.template)
        for name, ref, answers in (("old", begun, _answers_then(old)), ("new", commit, old.answers))
    ]
    try:
        made = [finish_rendering(process, folder / name) for name, process in zip(("old", "new"), started, strict=True)]
    finally:
        for process in started:
            if process.poll() is None:  # the other one failed, and its folder is about to go
                process.kill()
                process.communicate()
    new = read_stamp(made[1]) if (made[1] / STAMP).exists() else replace(old, files={}, shared={})
    pin = Pin.between(made[0], made[1], begun)
    trees = Trees(project=project, old=made[0], new=made[1], made=old.hashes, pin=pin)
    return trees, replace(new, template=old.template, commit=commit)


def _answers_then(stamp: Stamp) -> dict[str, str]:
    """Return the answers, with a lab's files as they were at the time, where a commit of theirs is known."""
    answers = dict(stamp.answers)
    if stamp.overlay and stamp.overlay["commit"]:
        answers["lab_overlay"] = f"{stamp.overlay['source']}#{stamp.overlay['commit']}"
    return answers


def _paths(old: Stamp, new: Stamp, ownership: Ownership, trees: Trees) -> set[str]:
    """Return the files that are the template's, then or now, and not left to the project."""
    there = {
        path.relative_to(folder).as_posix()
        for folder in (trees.old, trees.new)
        for path in folder.rglob("*")
        if path.is_file()
    }
    found = {path for path in there | set(new.hashes) if not ownership.is_users(path)} - {STAMP, CRUFT}
    if old.left is None:
        return found
    return {path for path in found if path in old.hashes or ownership.is_for_any_project(path)} - set(old.left)


def as_json(done: Update) -> str:
    """Return what an update did, for programs."""
    changes = [{"path": change.path, "action": str(change.action)} for change in done.changes]
    record = {"from": done.old.commit, "to": done.new.commit, "changes": changes, "conflicts": done.conflicts}
    return json.dumps(record, indent=1, ensure_ascii=False)
