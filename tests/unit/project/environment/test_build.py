"""An environment is built where it is to run."""

from pathlib import Path

import pytest

from helpers import InvalidRequest, JobExited
from helpers.project.environment.build import build
from helpers.project.environment.sync import sync

LOCAL = {"cluster": "local"}


def conda(folder: Path, more: str = "true") -> Path:
    """Make a stand-in that notes its words and its CUDA, makes a Python that succeeds, and does ``more``."""
    folder.mkdir()
    program = folder / "conda"
    program.write_text(
        f'#!/bin/sh\necho "$CONDA_OVERRIDE_CUDA $*" > {folder}/noted\nmkdir -p "$4/bin" "$4/conda-meta"\n'
        'packages="$4/lib/python3.11/site-packages"; mkdir -p "$packages"; ln -s "$(which true)" "$4/bin/python"\n'
        f'echo \'{{"name": "numpy", "files": []}}\' > "$4/conda-meta/numpy-1-0.json"; {more}\n'
    )
    program.chmod(0o755)
    return folder


def test_the_job_makes_it_from_the_file_for_the_cuda_that_was_named(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A node without a GPU has no driver that conda could see."""
    sync(project)
    tools = conda(tmp_path / "bin")
    monkeypatch.setenv("PATH", f"{tools}:/usr/bin:/bin")
    assert build(project, Path(".conda"), on_gpu=False, cuda="12.4", **LOCAL).result(240) == 0
    words = f"12.4 env create --prefix {project}/.conda --file {project}/environment.yml\n"
    assert (tools / "noted").read_text() == words


def test_it_fails_where_pip_has_replaced_what_conda_installed(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An environment of two owners works until it does not; the log says which package, and the cure."""
    sync(project)
    info = '"$packages/numpy-2.0.dist-info"'
    tools = conda(tmp_path / "bin", f"mkdir {info}; echo pip > {info}/INSTALLER")
    monkeypatch.setenv("PATH", f"{tools}:/usr/bin:/bin")
    error = build(project, Path(".conda"), on_gpu=False, cuda="12.4", **LOCAL).exception(240)
    assert isinstance(error, JobExited)
    assert f"conda and pip have both installed numpy in {project}/.conda" in str(error)


def test_without_conda_it_ends_with_the_shells_code(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And says what is missing in its log."""
    sync(project)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    job = build(project, Path(".conda"), on_gpu=False, cuda="12.4", **LOCAL)
    error = job.exception(240)
    assert isinstance(error, JobExited)
    assert error.facts.exit_code == 127


def test_on_a_gpu_it_asks_for_one(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Conda then sees the driver itself."""
    sync(project)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    preview = build(project, Path(".conda"), on_gpu=True, cuda="12.4", dry_run=True, **LOCAL)
    assert "1 GPU" in preview.sentence  # type: ignore[attr-defined]  # a dry run gives a preview


def test_a_folder_that_is_there_and_files_that_are_old_are_refused(project: Path) -> None:
    """An environment is made anew, from what the list says now."""
    with pytest.raises(InvalidRequest, match=r"not as pyproject\.toml says"):
        build(project, Path(".conda"), on_gpu=False, cuda="12.4", **LOCAL)
    sync(project)
    (project / ".conda").mkdir()
    with pytest.raises(InvalidRequest, match="is there already"):
        build(project, Path(".conda"), on_gpu=False, cuda="12.4", **LOCAL)
