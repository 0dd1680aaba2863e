"""The folder of checkpoints: which there are, which is the newest whole one, which may go.

::

    checkpoints/
        lease.json                          who may write here
        step-00001234/                      a checkpoint after 1234 steps, within an epoch
        step-00001234-again-0001/           the same step, saved again because ``save()`` was called there again
        step-00001250-epoch-0003/           one at the end of an epoch, three of them done
        best-step-00001250/                 the state with the best metric; never resumed from
        step-00001260.tmp-<attempt>-<hex>/  being written; without the name of a checkpoint it is none
        broken-step-00001240-<hex>/         found damaged and set aside
        removed-step-00001200-<hex>/        being removed

A name is given by a rename, after everything under it has reached the disk, and taken away by a rename
before anything under it goes: whatever bears the name of a checkpoint is whole, or damaged from outside.
"""

from __future__ import annotations

import re
import secrets
import shutil
import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from helpers.errors import HelpersError
from helpers.runtime.files import sync_folder
from helpers.training.checkpoints import manifest as manifests
from helpers.training.checkpoints.tensor_file import Broken, write_file

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from pathlib import Path

    from helpers.training.checkpoints.manifest import Manifest

T = TypeVar("T")

_NAME = re.compile(r"step-(\d{8,})(?:-epoch-(\d{4,}))?(?:-again-(\d{4,}))?")
_BEST = re.compile(r"best-step-\d{8,}(?:-[0-9a-f]{6})?")
_TEMPORARY = re.compile(r".+\.tmp-(\d+)-[0-9a-f]+")


class NoWholeCheckpoint(HelpersError, RuntimeError):
    """There are checkpoints, and all of them are damaged; training does not begin anew in silence."""


@dataclass(frozen=True, order=True)
class Position:
    """Where in the training a checkpoint was made.

    Args:
        step: Steps done.
        epochs_done: At the end of an epoch: how many are complete; 0 within one.
        revision: How often it had been saved there before: what is committed is never altered.
    """

    step: int
    epochs_done: int = 0
    revision: int = 0

    @property
    def name(self) -> str:
        """Name of the checkpoint's folder; names sort as positions do ("again" comes before "epoch")."""
        epoch = f"-epoch-{self.epochs_done:04d}" if self.epochs_done else ""
        again = f"-again-{self.revision:04d}" if self.revision else ""
        return f"step-{self.step:08d}{epoch}{again}"

    def again(self) -> Position:
        """Return the position of what is saved there the next time."""
        return replace(self, revision=self.revision + 1)

    @classmethod
    def from_name(cls, name: str) -> Position | None:
        """Return the position that a folder's name tells; None if it is no checkpoint's name."""
        match = _NAME.fullmatch(name)
        return cls(*(int(part or 0) for part in match.groups())) if match else None


class CheckpointFolder:
    """The checkpoints of one run.

    Args:
        path: The folder; it need not exist.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def positions(self) -> list[Position]:
        """Return what bears the name of a checkpoint, oldest first."""
        found = [Position.from_name(name) for name in self._names()]
        return sorted(position for position in found if position is not None)

    def whole(self) -> list[Position]:
        """Return the checkpoints that look whole (their manifest and the lengths of their files), oldest first."""
        return [position for position in self.positions() if self._looks_whole(self.path / position.name)]

    def newest_whole(self, read: Callable[[Path, Manifest], T], *, set_aside: bool) -> tuple[Path, T] | None:
        """Return the newest checkpoint of which every byte is right; None if there never was one.

        Args:
            read: Reads every file of a checkpoint and raises ``Broken`` if one is damaged, so that each byte
                is read once.
            set_aside: Whether damaged ones are renamed; else they are only named on stderr.

        Returns:
            The checkpoint's folder, and what ``read`` returned.

        Raises:
            NoWholeCheckpoint: If there are only damaged ones.
            NewerFormat: If the newest was written by a later version.
        """
        damaged = [name for name in self._names() if name.startswith("broken-")]
        for position in reversed(self.positions()):
            folder = self.path / position.name
            try:
                return folder, read(folder, self._manifest(position))
            except Broken as error:
                damaged.append(self._say_broken(folder, error, set_aside=set_aside))
        if damaged:
            raise NoWholeCheckpoint(
                f"No checkpoint in {self.path} is whole: {', '.join(sorted(damaged))}.",
                hint=f"To begin anew on purpose: mv {self.path} {self.path}.damaged",
            )
        return None

    def best(self) -> tuple[Path, Manifest] | None:
        """Return the checkpoint with the best metric; None if there is none that looks whole."""
        found = [
            (self.path / name, manifests.read_manifest(self.path / name))
            for name in self._names()
            if _BEST.fullmatch(name) and self._looks_whole(self.path / name)
        ]
        signs = {True: -1.0, False: 1.0}
        return max(
            found,
            key=lambda item: signs[item[1].facts["lower_is_better"]] * item[1].facts["value"],
            default=None,
        )

    def begin(self, name: str, attempt: int) -> Path:
        """Make the folder in which a checkpoint is prepared."""
        folder = self.path / f"{name}.tmp-{attempt}-{secrets.token_hex(4)}"
        folder.mkdir()
        return folder

    def commit(self, temporary: Path, name: str, manifest: Manifest) -> Path:
        """Write the manifest, bring all to the disk and give the name.

        A whole checkpoint that has the name already stays as it is (what is committed is never altered); a
        damaged one is set aside.

        Raises:
            OSError: If that fails; the name is then not taken.
        """
        write_file(temporary / manifests.NAME, [manifest.to_bytes()])
        sync_folder(temporary)
        target = self.path / name
        if target.exists():
            if self._looks_whole(target):
                shutil.rmtree(temporary, ignore_errors=True)
                return target
            target.rename(self.path / f"broken-{name}-{secrets.token_hex(4)}")
        temporary.rename(target)
        try:
            sync_folder(self.path)
        except OSError:
            target.rename(temporary)
            raise
        return target

    def keep_newest(self, count: int | None, *, spare: Collection[str] = ()) -> None:
        """Remove all but the ``count`` newest whole checkpoints; damaged ones neither count nor go."""
        if count is None:
            return
        for position in self.whole()[:-count]:
            if position.name not in spare:
                self.remove(position.name)

    def keep_one_best(self, kept: Path) -> None:
        """Remove the best ones of the past."""
        for name in self._names():
            if _BEST.fullmatch(name) and name != kept.name:
                self.remove(name)

    def remove(self, name: str) -> None:
        """Remove a checkpoint: first its name, then its files."""
        doomed = self.path / f"removed-{name}-{secrets.token_hex(4)}"
        try:
            (self.path / name).rename(doomed)
        except FileNotFoundError:
            return
        shutil.rmtree(doomed, ignore_errors=True)

    def clean(self, attempt: int) -> None:
        """Remove what this attempt and earlier ones left half done; the lease must be ours."""
        for name in self._names():
            match = _TEMPORARY.fullmatch(name)
            if (match and int(match.group(1)) <= attempt) or name.startswith("removed-"):
                shutil.rmtree(self.path / name, ignore_errors=True)

    def _names(self) -> list[str]:
        try:
            return sorted(entry.name for entry in self.path.iterdir())
        except (FileNotFoundError, NotADirectoryError):
            return []

    def _manifest(self, position: Position) -> Manifest:
        folder = self.path / position.name
        manifest = manifests.read_manifest(folder)
        manifests.check_lengths(folder, manifest)
        if manifest.step != position.step:
            raise Broken(f"{folder} holds step {manifest.step}: it was renamed.")
        return manifest

    def _looks_whole(self, folder: Path) -> bool:
        try:
            manifests.check_lengths(folder, manifests.read_manifest(folder))
        except Broken:
            return False
        return True

    def _say_broken(self, folder: Path, error: Broken, *, set_aside: bool) -> str:
        name = folder.name
        if set_aside:
            name = folder.rename(self.path / f"broken-{folder.name}-{secrets.token_hex(4)}").name
        what = f"it is set aside as {name}" if set_aside else "an older one is looked for"
        print(f"helpers: a checkpoint is damaged; {what}: {error}", file=sys.stderr, flush=True)
        return name
