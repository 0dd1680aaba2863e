"""Which engine runs an image, what it is told, and what is refused before anything is queued."""

import itertools
import json
import os
import stat
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from helpers import EnvironmentMismatch, InvalidRequest, JobExited, submit, submit_array, submit_command
from helpers.submission.clusters.slurm import SlurmCluster
from helpers.submission.containers import pyxis
from helpers.submission.containers.container import LIBRARY, Bind, in_order
from tests.unit.submission import functions

Tool = Callable[[str], Path]


@pytest.fixture(autouse=True)
def _no_estimate(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is no Slurm to ask when a job would start."""
    monkeypatch.setattr(SlurmCluster, "estimate_start", lambda *_: "")


@pytest.fixture
def tool(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Tool:
    """Make a stand-in for a program: it notes its words, and runs what follows the image."""
    folder = tmp_path_factory.mktemp("bin")
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")

    def make(name: str) -> Path:
        noted = folder / f"{name}.json"
        script = folder / name
        script.write_text(
            f"#!{sys.executable}\nimport json, os, sys\n"
            f"json.dump(sys.argv[1:], open({str(noted)!r}, 'w'))\n"
            "rest = [i for i, word in enumerate(sys.argv) if word.endswith('.sif')][-1] + 1\n"
            "os.execvp(sys.argv[rest], sys.argv[rest:])\n"
        )
        script.chmod(script.stat().st_mode | stat.S_IXUSR)
        return noted

    return make


@pytest.fixture
def image(project: Path) -> str:
    """A file that is one by its name, in a project whose Python it has."""
    (project / "image.sif").touch()
    (project / "pyproject.toml").write_text(
        f'[tool.helpers.defaults]\ncontainer_python = "{sys.executable}"\ncluster = "local"\n'
    )
    (project / "data" / "raw").mkdir(parents=True)
    return "image.sif"


def root_file_system(folder: Path) -> Path:
    for name in ("dev", "proc", "sys"):
        (folder / name).mkdir(parents=True)
    return folder


def script_of(container: str, **keywords: object) -> str:
    return str(submit(functions.add, 1, container=container, cluster="slurm", dry_run=True, **keywords))


def test_apptainer_is_told_binds_raw_data_and_folder_and_starts_the_rank(image: str, tool: Tool, project: Path) -> None:
    """It is the whole way, but for the engine itself: the value comes back."""
    noted = tool("apptainer")
    assert submit(functions.add, 1, b=2, container=image).result(240) == 3
    words = json.loads(noted.read_text())
    assert words[0] == "exec"
    assert "--nv" not in words
    binds = [word for before, word in itertools.pairwise(words) if before == "--bind"]
    raw, library = f"{project}/data/raw", Path(sys.modules["helpers"].__file__ or "").parent
    assert sorted(binds) == sorted([
        f"{project}:{project}", f"{raw}:{raw}:ro", f"{library}:{LIBRARY}/helpers:ro",
    ])  # fmt: skip
    assert words[words.index("--pwd") + 1 :][:2] == [str(project), str(project / image)]


def test_a_program_needs_no_python_in_the_image(image: str, tool: Tool) -> None:
    """R's images have none: what stands around the program stays outside."""
    noted = tool("apptainer")
    job = submit_command(["sh", "-c", "exit 3"], container=image)
    assert isinstance(job.exception(240), JobExited)
    assert json.loads(noted.read_text())[-4:] == [str(job.folder.parents[2] / image), "sh", "-c", "exit 3"]


def test_each_element_of_an_array_runs_in_it(image: str, tool: Tool) -> None:
    """A sweep has one script, and its elements have folders below that of the array."""
    tool("apptainer")
    jobs = submit_array(functions.add, [1, 2], container=image)
    assert [job.result(240) for job in jobs] == [1, 2]


def test_gpus_bring_the_drivers_libraries_along(image: str, tool: Tool) -> None:
    """Without --nv torch sees no GPU, and no error tells why."""
    tool("apptainer")
    assert "exec --nv --bind" in script_of(image, gpus=1)


def test_singularity_is_apptainer_by_its_older_name(image: str, tool: Tool) -> None:
    """Many clusters have that one."""
    tool("singularity")
    assert "singularity exec" in script_of(image)


def test_the_rank_is_started_by_words_that_replace_themselves(image: str, tool: Tool) -> None:
    """A shell between srun and Python would keep the signals to itself."""
    tool("apptainer")
    assert (
        f"image.sif env -u PYTHONHOME PYTHONPATH={LIBRARY} PYTHONNOUSERSITE=1 {sys.executable} -u -P -m "
        "helpers.runtime.rank.rank\n"
    ) in script_of(image)


def test_charliecloud_makes_raw_data_read_only_before_it_enters_the_image(project: Path, tool: Tool) -> None:
    """It has no read-only binds of its own."""
    tool("ch-run")
    raw = project / "data" / "raw"
    raw.mkdir(parents=True)
    (project / "pyproject.toml").write_text("[tool.helpers]\n")
    script = script_of(str(root_file_system(project.parent / f"{project.name}-image")))
    assert "unshare --user --map-root-user --mount sh -c" in script
    assert script.index(f" {raw} -- ch-run ") < script.index(f"--bind={project}:{project}")


@pytest.mark.parametrize(
    ("container", "engine"),
    [("image.sif", "apptainer"), ("image.sqfs", "ch-run"), ("folder", "ch-run"), ("library://a/b", "apptainer")],
)
def test_the_engine_follows_from_the_form_of_the_image(
    container: str, engine: str, image: str, tool: Tool, project: Path
) -> None:
    """Nobody should have to say it twice."""
    assert image
    for name in ("apptainer", "ch-run"):
        tool(name)
    (project / "image.sqfs").touch()
    root_file_system(project / "folder")
    assert f"{engine} " in script_of(container)


def test_a_setting_says_it_for_all_and_the_caller_is_told(
    image: str, tool: Tool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line of a lab's file."""
    tool("apptainer")
    tool("ch-run")
    monkeypatch.setenv("HELPERS_CONTAINER_ENGINE", "charliecloud")
    assert "ch-run --uid" in script_of(image)
    assert "image.sif, by charliecloud (HELPERS_CONTAINER_ENGINE)" in capsys.readouterr().err


def refused(container: object, **keywords: object) -> InvalidRequest:
    with pytest.raises(InvalidRequest) as raised:
        submit(functions.add, 1, container=container, **{"cluster": "slurm", **keywords})
    return raised.value


def test_a_missing_image_is_refused_with_what_makes_one(image: str, tool: Tool, project: Path) -> None:
    """Not after hours in the queue."""
    assert image
    tool("apptainer")
    error = refused("gone.sif")
    assert (error.message, error.hint) == (
        f"There is no image {project}/gone.sif.",
        f"apptainer build {project}/gone.sif container.def  # or its path",
    )


def test_a_missing_engine_is_refused_unless_the_job_loads_it(image: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many sites have it in a module."""
    monkeypatch.setenv("HELPERS_CONTAINER_ENGINE", "apptainer")
    error = refused(image)
    assert "no apptainer on PATH" in error.message
    assert 'setup=["module load apptainer"]' in error.hint
    assert "apptainer exec" in script_of(image, setup=["module load apptainer"])


def test_pyxis_is_refused_where_slurm_has_not_got_it(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The job's srun would not know the option."""
    assert project
    monkeypatch.setattr(pyxis, "is_configured", lambda *_: False)
    assert "srun --help has no --container-image" in refused("docker://python:3.12").message


def test_pyxis_is_refused_on_this_machine(image: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is a part of srun."""
    assert image
    monkeypatch.setattr(pyxis, "is_configured", lambda *_: True)
    assert "Pyxis is a part of Slurm" in refused("docker://python:3.12", cluster="local").message


def test_a_container_in_this_very_process_is_refused(image: str) -> None:
    """It would be ignored in silence."""
    assert "in no container" in refused(image, cluster="inline").message


def test_a_folder_that_is_no_root_file_system_is_refused(project: Path, tool: Tool) -> None:
    """ch-run's own words would come from the node."""
    tool("ch-run")
    (project / "folder").mkdir()
    assert "it has no /dev" in refused("folder").message


def test_an_image_that_cannot_run_python_is_refused_before_the_queue(
    image: str, tool: Tool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The preflight runs in the image, too, where that is cheap."""
    tool("apptainer")
    monkeypatch.setenv("HELPERS_CONTAINER_PYTHON", "no-such-python")
    error = refused(image, cluster="local")
    assert "Nothing can be run in the container" in error.message
    assert "no-such-python" in error.message


def test_an_image_that_cannot_start_on_the_node_is_told_by_its_own_words(
    image: str, tool: Tool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be seen on the login node only; a bare exit code 127 says nothing."""
    tool("apptainer")
    monkeypatch.setenv("HELPERS_PREFLIGHT", "0")
    monkeypatch.setenv("HELPERS_CONTAINER_PYTHON", "no-such-python")
    error = submit(functions.add, 1, container=image).exception(240)
    assert isinstance(error, EnvironmentMismatch)
    assert "nothing began in the container" in str(error)
    assert "no-such-python" in str(error)


@pytest.mark.parametrize(
    ("bind", "words"),
    [
        ("/a:/b:/c:ro", "is source:target:ro"),
        ("/no/such/folder", "there is no /no/such/folder"),
        ("/etc:x", "a whole path"),
    ],
)
def test_a_wrong_bind_is_refused(
    bind: str, words: str, image: str, tool: Tool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the line or variable that says so."""
    tool("apptainer")
    monkeypatch.setenv("HELPERS_CONTAINER_BINDS", bind)
    error = refused(image)
    assert error.message.startswith("HELPERS_CONTAINER_BINDS: container_binds")
    assert words in error.message


def test_a_path_with_a_separator_is_refused(
    project: Path, image: str, tool: Tool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine would take it for two."""
    tool("apptainer")
    odd = project / "a:b"
    odd.mkdir()
    monkeypatch.setenv("HELPERS_RUNS", str(odd))
    assert "reads colons and commas as separators" in refused(str(project / image)).message


def test_a_folder_comes_before_what_lies_in_it_and_covers_it() -> None:
    """The later bind hides the earlier one; the read-only one is never left out."""
    project, runs = Bind(source="/p", target="/p"), Bind(source="/p/runs", target="/p/runs")
    raw = Bind(source="/p/data/raw", target="/p/data/raw", read_only=True)
    assert in_order([raw, runs, project]) == (project, raw)


def test_code_of_another_python_is_refused_by_name(image: str) -> None:
    """Its instructions would be read as others, and the interpreter might crash."""
    from helpers.runtime.rank.call import _load_code

    assert image
    with pytest.raises(
        TypeError, match=r"code of Python 3\.1 cannot run in Python 3\.\d+: put the function into a mod"
    ):
        _load_code((3, 1), b"")
