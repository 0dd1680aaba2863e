"""One list: what is made from it, and how a difference is told."""

import subprocess
import sys
from importlib.metadata import PathDistribution
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from helpers import InvalidRequest
from helpers.cli.main import app
from helpers.project.environment.generated import conda_file
from helpers.project.environment.lock import MADE, lock_file
from helpers.project.environment.requirements import read_dependencies
from helpers.project.environment.sync import differences, sync

GOLDEN = Path(__file__).parent / "golden" / "environment.yml"


def test_conda_comes_first_then_pip_once(project: Path) -> None:
    """What has extras, a marker or an address conda cannot say; the rest follows its own list."""
    assert sync(project) == ["environment.yml", "container.def"]
    assert (project / "environment.yml").read_text() == GOLDEN.read_text()


def test_the_file_is_yaml_as_conda_reads_it(project: Path) -> None:
    """Texts are quoted: a requirement may hold what YAML takes for its own."""
    sync(project)
    read = yaml.safe_load((project / "environment.yml").read_text())
    *conda, pip = read["dependencies"]
    assert (read["name"], read["channels"]) == ("digits", ["conda-forge", "nodefaults"])
    assert all(isinstance(one, str) for one in conda)
    assert pip["pip"][-1] == "dask[complete]; sys_platform == 'linux'"


def test_the_container_is_made_from_the_same_file(project: Path) -> None:
    """Then the two agree by construction."""
    sync(project)
    definition = (project / "container.def").read_text()
    assert "environment.yml /opt/environment.yml" in definition
    assert "--file /opt/environment.yml" in definition
    assert "ch-run --write" in definition


def test_a_second_sync_changes_nothing(project: Path) -> None:
    """And the check is content."""
    sync(project)
    assert (sync(project), differences(project)) == ([], [])


def test_a_difference_is_shown_as_one(project: Path) -> None:
    """Somebody has edited what is made."""
    sync(project)
    file = project / "environment.yml"
    file.write_text(file.read_text().replace("numpy>=1.26,<3", "numpy>=2"))
    lines = differences(project)
    assert '-  - "numpy>=2"' in lines
    assert '+  - "numpy>=1.26,<3"' in lines


def test_another_build_of_torch_is_one_setting(project: Path) -> None:
    """Old cards need another CUDA than the newest wheel has."""
    file = project / "pyproject.toml"
    file.write_text(file.read_text() + 'cuda = "cu126"\n')
    sync(project)
    address = "--extra-index-url https://download.pytorch.org/whl/cu126"
    assert f'  - pip:\n      - "{address}"\n' in (project / "environment.yml").read_text()
    assert "    torch cu126\n" in (project / "container.def").read_text()
    assert address in lock_file(read_dependencies(project), [])


def test_the_project_says_what_conda_installs(project: Path) -> None:
    """Also torch, where a lab has its reasons."""
    file = project / "pyproject.toml"
    file.write_text(file.read_text() + 'conda = ["torch"]\n')
    sync(project)
    conda, pip = (project / "environment.yml").read_text().split("  - pip:\n")
    assert '"pytorch>=2.6"' in conda  # conda-forge's name for it
    assert '"matplotlib>=3.8"' in pip


def metadata(folder: Path, name: str, *needs: str, version: str = "1.5") -> PathDistribution:
    info = folder / f"{name}-{version}.dist-info"
    info.mkdir(parents=True)
    lines = [f"Name: {name}", f"Version: {version}", *(f"Requires-Dist: {one}" for one in needs)]
    (info / "METADATA").write_text("\n".join(lines) + "\n")
    return PathDistribution(info)


def test_the_lock_pins_what_is_installed_with_what_it_needs(project: Path, tmp_path: Path) -> None:
    """No more than that: tools that happen to be there are not the project's."""
    installed = [
        metadata(tmp_path, "numpy"),
        metadata(tmp_path, "Torch", "sympy>=1; python_version > '3'", "pytest; extra == 'dev'"),
        metadata(tmp_path, "sympy"),
        metadata(tmp_path, "pytest"),
        metadata(tmp_path, "slurm_torch_helpers"),
    ]
    lines = [line for line in lock_file(read_dependencies(project), installed).splitlines() if line[0] != "#"]
    address = "slurm-torch-helpers @ git+https://example.org/helpers@0123"
    assert lines == ["numpy==1.5", address, "sympy==1.5", "torch==1.5"]


def test_the_lock_pins_what_an_extra_needs(project: Path, tmp_path: Path) -> None:
    """Of the extra that is asked for, not of the others; and nothing that is for another system."""
    (project / "pyproject.toml").write_text(
        "[project]\ndependencies = ['net[fast]', \"gone; sys_platform == 'win32'\"]\n"
    )
    installed = [
        metadata(tmp_path, "net", "jit>=1; extra == 'fast'", "pytest; extra == 'dev'", "core[io]"),
        metadata(tmp_path, "core", "disk; extra == 'io'", "gone; sys_platform == 'win32'"),
        *(metadata(tmp_path, name) for name in ("jit", "pytest", "disk", "gone")),
    ]
    lines = [line for line in lock_file(read_dependencies(project), installed).splitlines() if line[0] != "#"]
    assert lines == ["core==1.5", "disk==1.5", "jit==1.5", "net==1.5"]


def test_bounds_stay_in_their_order_for_conda(project: Path) -> None:
    """The file is made anew on each machine, and must be the same."""
    (project / "pyproject.toml").write_text("[project]\ndependencies = ['numpy >= 1.26, < 9, != 2.0.1']\n")
    assert '"numpy>=1.26,<9,!=2.0.1"' in conda_file(read_dependencies(project))


def test_a_lock_names_no_build_that_the_package_index_lacks(project: Path, tmp_path: Path) -> None:
    """It has no 2.13.0+cpu; where the project names the build, its own index has."""
    installed = [metadata(tmp_path, "torch", version="2.13.0+cpu")]
    assert "torch==2.13.0\n" in lock_file(read_dependencies(project), installed)
    with (project / "pyproject.toml").open("a") as file:
        file.write('cuda = "cpu"\n')
    assert "torch==2.13.0+cpu\n" in lock_file(read_dependencies(project), installed)


LIST = """[project]
name = "x"
dependencies = ["numpy>=1.26,<9", "net @ git+https://example.org/net@2", "gone; sys_platform == 'win32'"]
"""
GOOD = f"{MADE}\nnumpy==1.26.4\nnet @ git+https://example.org/net@2\n"


@pytest.mark.parametrize(
    ("was", "said"),
    [
        (("numpy==1.26.4\n", ""), "requirements.lock does not pin numpy>=1.26,<9"),
        (("1.26.4", "1.9"), "requirements.lock pins numpy==1.9, not numpy>=1.26,<9"),
        (("1.26.4", "9.0.0"), "requirements.lock pins numpy==9.0.0, not numpy>=1.26,<9"),
        (("net@2", "net@1"), "requirements.lock pins net @ git+https://example.org/net@1, not net @ git+https://"),
        (
            (MADE, f"{MADE}\n--extra-index-url https://e.org"),
            "requirements.lock is for https://e.org, not for",
        ),
    ],
)
def test_a_lock_that_is_behind_the_list_is_told(was: tuple[str, str], said: str, project: Path) -> None:
    """Somebody has changed the list, and not pinned it."""
    (project / "pyproject.toml").write_text(LIST)
    sync(project)
    (project / "requirements.lock").write_text(GOOD)
    assert differences(project) == []
    (project / "requirements.lock").write_text(GOOD.replace(*was))
    (line,) = differences(project)
    assert line.startswith(said)


@pytest.mark.parametrize(
    ("bounds", "pin", "is_met"),
    [
        (">=2", "2.0.1", True), ("==2.*", "2.1", True), ("==2.*", "3.0", False), ("==2.1", "2.1.0", True),
        ("!=2.1", "2.1", False), ("<2.10", "2.9", True), ("<=2", "2.0.1", False), (">2", "2.0", False),
        (">=2", "1.9rc1", False), (">=2", "2.1rc1", True), ("~=1.2", "3", False), ("~=1.2", "1.3", True),
        ("!=2.*", "2.1", False), ("==2.13.0", "2.13.0+cpu", True), ("===1.0", "1.0.0", False),
    ],
)  # fmt: skip
def test_bounds_are_compared_as_pip_does(bounds: str, pin: str, is_met: bool, project: Path) -> None:
    """Release candidates and local builds included."""
    (project / "pyproject.toml").write_text(f"[project]\ndependencies = ['numpy{bounds}']\n")
    sync(project)
    (project / "requirements.lock").write_text(f"{MADE}\nnumpy=={pin}\n")
    assert (differences(project) == []) is is_met


def test_a_lock_that_is_behind_is_made_anew_from_what_is_installed(project: Path) -> None:
    """And one that agrees stays, whatever is installed by now: pins are an earlier day's."""
    (project / "pyproject.toml").write_text('[project]\ndependencies = ["numpy>=1.26"]\n')
    lock = project / "requirements.lock"
    lock.write_text(f"{MADE}\nnumpy==1.26.0\n")
    assert "requirements.lock" not in sync(project)
    (project / "pyproject.toml").write_text('[project]\ndependencies = ["numpy>=1.26", "pytest"]\n')
    assert "requirements.lock" in sync(project)
    assert f"pytest=={pytest.__version__}\n" in lock.read_text()
    assert differences(project) == []


def test_the_cure_for_a_lock_that_cannot_be_made_yet_is_to_install(project: Path) -> None:
    """The other files are written all the same."""
    (project / "pyproject.toml").write_text('[project]\ndependencies = ["not-on-this-machine"]\n')
    (project / "requirements.lock").write_text(f"{MADE}\n")
    done = CliRunner().invoke(app, ["env", "sync"])
    assert done.exit_code == 1
    assert "requirements.lock does not pin not-on-this-machine\n" in done.stdout
    assert "make setup" in done.stderr
    assert (project / "environment.yml").exists()


def test_what_is_not_installed_cannot_be_pinned(project: Path) -> None:
    """A lock with holes would be worse than none."""
    with pytest.raises(InvalidRequest, match=r"cannot be pinned: .*tables is not installed"):
        sync(project, lock=True)


def test_what_is_installed_but_not_as_the_list_says_cannot_be_pinned(project: Path) -> None:
    """A lock that pip could not install beside the list."""
    (project / "pyproject.toml").write_text('[project]\ndependencies = ["numpy>=99"]\n')
    with pytest.raises(InvalidRequest, match=r"cannot be pinned: .*, not numpy>=99"):
        sync(project, lock=True)


def test_a_file_of_the_projects_own_is_left(project: Path) -> None:
    """It was there before the list; the container is made all the same."""
    (project / "environment.yml").write_text("name: mine\n")
    assert sync(project) == ["container.def"]
    assert (project / "environment.yml").read_text() == "name: mine\n"
    assert differences(project) == []
    done = CliRunner().invoke(app, ["env", "sync"])
    assert done.exit_code == 0
    assert "to have it made: helpers env adopt environment.yml" in done.stderr


def test_another_programs_lock_is_neither_read_nor_overwritten(project: Path) -> None:
    """Its name is not ours alone."""
    (project / "pyproject.toml").write_text('[project]\ndependencies = ["numpy"]\n')
    (project / "requirements.lock").write_text("-e file:.\nnumpy == 1 \\\n  --hash=x\n")
    sync(project)
    assert differences(project) == []
    with pytest.raises(InvalidRequest, match=r"requirements\.lock was not made by helpers"):
        sync(project, lock=True)


@pytest.mark.parametrize("text", ["[tool.helpers]\n", '[project]\nname = "x"\ndynamic = ["dependencies"]\n'])
def test_without_a_list_nothing_is_made(text: str, project: Path) -> None:
    """An empty environment.yml would hide that setup.py has the list; a hook has nothing to complain of."""
    (project / "pyproject.toml").write_text(text)
    assert differences(project) == []
    with pytest.raises(InvalidRequest, match="has no list of dependencies"):
        sync(project)
    assert [file.name for file in project.iterdir()] == ["pyproject.toml"]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("[tool.helpers.environment]\nconda = 3\n", "conda in .* is a list of names"),
        ("[tool.helpers.environment]\ncuda = '12.6'\n", "is a build of torch; got '12.6'"),
        ("[tool.helpers.environment]\ncondas = []\n", "there is no 'condas'"),
        ("[project]\ndependencies = ['a b']\n", "'a b' is no requirement"),
        ("[project]\ndependencies = 'numpy'\n", "dependencies is a list"),
        ("[project\n", "is no valid TOML"),
        ("project = 3\n", "project is a table; got 3"),
    ],
)
def test_what_is_wrong_in_the_list_is_named(line: str, words: str, project: Path) -> None:
    """With the file, and before anything is written."""
    (project / "pyproject.toml").write_text(line)
    with pytest.raises(InvalidRequest, match=words):
        sync(project)
    assert [file.name for file in project.iterdir()] == ["pyproject.toml"]


def test_the_command_says_by_its_exit_code_whether_they_agree(project: Path) -> None:
    """For a hook before each commit; it writes nothing."""
    command = [sys.executable, "-m", "helpers.cli", "env", "sync"]
    before = subprocess.run([*command, "--check"], capture_output=True, text=True, check=False)
    assert (before.returncode, (project / "environment.yml").exists()) == (1, False)
    assert "+++ environment.yml by pyproject.toml" in before.stdout
    assert subprocess.run(command, capture_output=True, check=False).returncode == 0
    assert subprocess.run([*command, "--check"], capture_output=True, check=False).returncode == 0
