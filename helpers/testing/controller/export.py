"""What of the caller's environment a job or a step gets: ``--export``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

_LOGIN = ("HOME", "USER", "LOGNAME", "SHELL", "SLURM_CONF", "PATH")


def exported_to_job(options: Mapping[str, str], environment: Mapping[str, str]) -> dict[str, str]:
    """Return what a batch script gets, with what the shell has of an outer job, as the real one does."""
    asked = options.get("export", "ALL")
    words = asked.split(",")
    if words[0] in {"NONE", "NIL"}:
        own = _some(environment, _LOGIN)
    elif words[0] == "ALL":
        own = dict(environment)
    else:
        own = _some(environment, [*words, "SLURM_CONF", "PATH", "HOME", "USER"])
    own |= _given(words)
    if asked != "ALL":
        own["SLURM_EXPORT_ENV"] = asked
    return own


def exported_to_step(options: Mapping[str, str], environment: Mapping[str, str]) -> dict[str, str]:
    """Return what the tasks of a step get of the environment of ``srun``."""
    words = options.get("export", environment.get("SLURM_EXPORT_ENV", "ALL")).split(",")
    own = dict(environment) if words[0] == "ALL" else _some(environment, [*words, "HOME", "PATH", "USER"])
    return own | _given(words)


def _some(environment: Mapping[str, str], names: Iterable[str]) -> dict[str, str]:
    return {name: environment[name] for name in names if name in environment}


def _given(words: Iterable[str]) -> dict[str, str]:
    return dict(word.partition("=")[::2] for word in words if "=" in word)
