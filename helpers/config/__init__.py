"""The layers of settings, low to high: library, site, lab, user, project, environment, the call."""

from __future__ import annotations

from helpers.config.folders import RUNS_VARIABLE, find_project, runs_folder, storage_folder, working_directory
from helpers.config.layers import Entry, Origin, Settings, read_settings

__all__ = [
    "RUNS_VARIABLE",
    "Entry",
    "Origin",
    "Settings",
    "find_project",
    "read_settings",
    "runs_folder",
    "storage_folder",
    "working_directory",
]
