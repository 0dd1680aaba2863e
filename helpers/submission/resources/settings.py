"""Fill in what a call leaves open by the settings, and remember who said what."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from helpers.config import Settings, read_settings, working_directory
from helpers.config.schema import NO_KEYWORDS, PROFILE
from helpers.errors import InvalidRequest
from helpers.submission.resources.amounts import parse_gpus, parse_memory_mb, parse_minutes
from helpers.submission.resources.slurm_options import check_slurm_options

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

THE_CALL = "the call"


@dataclass(frozen=True, kw_only=True)
class CompleteSettings:
    """The keywords of a call, with those that the settings fill in.

    Args:
        values: By keyword; what nobody says is left out.
        origins: Who says so: file and line, a variable, or the call; Slurm's options as ``slurm.constraint``.
        settings: All settings here.
        given: The call's own, as they were given.
        directory: The folder that is worked in.
    """

    values: Mapping[str, Any]
    origins: Mapping[str, str]
    settings: Settings
    given: Mapping[str, Any]
    directory: Path

    @property
    def cluster(self) -> str:
        """Where the run goes: ``"auto"``, ``"slurm"``, ``"local"`` or ``"inline"``."""
        return str(self.values["cluster"])

    @property
    def share(self) -> str:
        """Who may read the run folder, but for what is private: ``"private"`` or ``"group"``."""
        return str(self.settings.get("share"))

    @property
    def snapshot(self) -> bool:
        """Whether the job runs the project's source as it was submitted."""
        return bool(self.settings.get("snapshot"))

    @property
    def record(self) -> dict[str, Any]:
        """The call's own, as JSON keeps them; what is of one submission only is left out."""
        kept = {name: value for name, value in self.given.items() if name not in {"after", "dry_run"}}
        return {
            name: parse_minutes(value) if isinstance(value, timedelta) else json.loads(json.dumps(value, default=str))
            for name, value in kept.items()
        }

    def choices(self, chosen: Mapping[str, str]) -> dict[str, str]:
        """Return why each choice is what it is: who said so, or how it was chosen where nobody did."""
        return {**chosen, **self.origins}


def complete_settings(given: Mapping[str, Any]) -> CompleteSettings:
    """Put the call on top of the settings of the current folder.

    Args:
        given: The keywords of ``submit`` that are this library's; None is as good as left out.

    Raises:
        InvalidRequest: If a setting is unknown or wrong, or the profile is nowhere.
    """
    profile = given.get("profile")
    if profile is not None and not isinstance(profile, str):
        raise InvalidRequest(f"profile is a name; got {profile!r}.", hint="helpers config explain")
    directory = working_directory()
    settings = read_settings(directory, profile=profile)
    values, origins = _from_settings(settings)
    options = {key.removeprefix("slurm."): settings.get(key) for key in settings.entries if key.startswith("slurm.")}
    for key, value in given.items():
        if value is None or key == "slurm":
            continue
        values[key], origins[key] = value, THE_CALL
    if given.get("slurm"):
        own = check_slurm_options(given["slurm"])
        options |= own
        origins |= dict.fromkeys((f"slurm.{name}" for name in own), THE_CALL)
    if options:
        values["slurm"] = options
    origins.pop("profile", None)
    return CompleteSettings(values=values, origins=origins, settings=settings, given=given, directory=directory)


_FORMS: dict[str, Callable[[Any], Any]] = {
    "time": parse_minutes,
    "total_time": parse_minutes,
    "mem": parse_memory_mb,
    "gpus": parse_gpus,
}


def _from_settings(settings: Settings) -> tuple[dict[str, Any], dict[str, str]]:
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for key in settings.entries:
        entry = settings.entry(key)
        option = key.startswith("slurm.")
        if entry is None or key in NO_KEYWORDS or not (option or key in PROFILE):
            continue
        try:
            if option:
                check_slurm_options({key.removeprefix("slurm."): entry.value})
            elif key in _FORMS:
                _FORMS[key](entry.value)
        except InvalidRequest as error:
            raise InvalidRequest(f"{entry.origin}: {error.message}", hint=error.hint) from error
        if not option:
            values[key] = entry.value
        if entry.origin.layer != "library":
            origins[key] = str(entry.origin)
    return values, origins
