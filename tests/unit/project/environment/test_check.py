"""What breaks environments is found by the files that it leaves, each with its cure."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from helpers.cli.main import app
from helpers.project.environment.check import Finding, check_environment
from helpers.project.environment.place import Place
from tests.unit.project.environment.conftest import MakePlace, add_distribution

NOW = time.time() - 3600
DAY = 86400


def only(found: list[Finding]) -> Finding:
    (finding,) = found
    return finding


def test_a_good_environment_has_no_findings(make_place: MakePlace) -> None:
    """First conda, then pip."""
    place = make_place(conda={"numpy": "numpy"}, conda_at=NOW - DAY, pip={"torch": NOW})
    assert check_environment(place) == []


def test_a_package_of_two_owners_is_named(make_place: MakePlace) -> None:
    """One has put its files over the other's, and each believes that its own are there."""
    place = make_place(conda={"pytables": "tables", "numpy": "numpy"}, pip={"tables": NOW})
    add_distribution(place.packages, "tables", by="pip", when=NOW)
    finding = only(check_environment(place))
    assert finding.rule == "two-owners"
    assert "installed tables in" in finding.text
    assert finding.cure.startswith(f"rm -r {place.prefix} && conda env create --prefix {place.prefix} --file ")


def test_conda_after_pip_is_told_with_what_it_knows_nothing_of(make_place: MakePlace) -> None:
    """It may replace what pip's packages were built against."""
    finding = only(check_environment(make_place(conda={"numpy": "numpy"}, conda_at=NOW, pip={"torch": NOW - DAY})))
    assert (finding.rule, "after pip installed torch" in finding.text) == ("conda-after-pip", True)


def test_pip_within_condas_own_run_is_in_order(make_place: MakePlace) -> None:
    """``conda env create`` runs pip, and writes its history last."""
    assert check_environment(make_place(conda={"numpy": "numpy"}, conda_at=NOW, pip={"torch": NOW - 20})) == []


def test_packages_of_the_home_folder_are_named(make_place: MakePlace, tmp_path: Path) -> None:
    """C44: a stale one hides the environment's own."""
    user = tmp_path / "home" / ".local" / "lib"
    place = make_place(user_packages=user)
    add_distribution(user, "numpy", by="pip")
    finding = only(check_environment(place))
    assert (finding.rule, "imported from, too: numpy" in finding.text) == ("user-packages", True)
    assert finding.cure.startswith("export PYTHONNOUSERSITE=1")


def test_modules_of_the_home_folder_that_no_installer_knows_are_named(make_place: MakePlace, tmp_path: Path) -> None:
    """A numpy.py of an old exercise."""
    user = tmp_path / "home" / ".local" / "lib"
    place = make_place(user_packages=user)
    add_module(place.packages, "numpy")
    add_module(user, "numpy")
    add_module(user, "harmless")
    assert only(check_environment(place)).text == f"{user} is imported from, too: numpy"


def test_a_path_that_goes_before_the_environments_own_is_told(make_place: MakePlace, tmp_path: Path) -> None:
    """C44: another project's. The project's own folder, or one that hides nothing, is in order."""
    old, own, more = (tmp_path / name for name in ("old", "project", "more"))
    place = make_place(variables={"PATH": "", "PYTHONPATH": f"{old}:{own}/src::{more}:{tmp_path}/gone"})
    for folder, name in (
        (place.packages, "demo_pkg"),
        (old, "demo_pkg"),
        (own / "src", "demo_pkg"),
        (more, "harmless"),
    ):
        add_module(folder, name)
    add_distribution(old, "einops", by="pip")
    finding = only(check_environment(place, project=own))
    assert (finding.rule, finding.text) == (
        "python-path", f"PYTHONPATH names {old}, whose demo_pkg, einops goes before the environment's own",
    )  # fmt: skip


def add_module(folder: Path, name: str) -> None:
    (folder / name).mkdir(parents=True)
    (folder / name / "__init__.py").touch()


def test_an_interpreter_of_another_environment_is_told(make_place: MakePlace, tmp_path: Path) -> None:
    """An alias, or a full path in a script."""
    other = tmp_path / "other"
    (other / "bin").mkdir(parents=True)
    finding = only(check_environment(make_place(variables={"VIRTUAL_ENV": str(other), "PATH": ""})))
    assert finding.rule == "other-interpreter"
    assert f"{other} is active" in finding.text


def test_another_python_first_on_path_is_told(make_place: MakePlace, tmp_path: Path) -> None:
    """The module system has put its own in front."""
    first = tmp_path / "module" / "bin" / "python3"
    first.parent.mkdir(parents=True)
    first.touch(mode=0o755)
    place = make_place()
    there = {"CONDA_PREFIX": str(place.prefix), "PATH": f"{first.parent}:{place.prefix}/bin"}
    finding = only(check_environment(Place(prefix=place.prefix, packages=place.packages, executable=place.executable,
                                           variables=there, home=place.home)))  # fmt: skip
    assert (finding.rule, finding.cure) == ("other-python-first", f"export PATH={place.prefix}/bin:$PATH")


def test_libraries_that_go_before_the_environments_own_are_told(make_place: MakePlace, tmp_path: Path) -> None:
    """A cuda module's cuDNN under torch's wheel."""
    (tmp_path / "cuda").mkdir()
    (tmp_path / "cuda" / "libcudnn.so.8").touch()
    finding = only(check_environment(make_place(variables={"LD_LIBRARY_PATH": f":{tmp_path}/cuda", "PATH": ""})))
    assert (finding.rule, f"{tmp_path}/cuda, whose libcudnn" in finding.text) == ("library-path", True)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("export LD_LIBRARY_PATH=/opt/lib", ".bashrc:2 changes every shell: export LD_LIBRARY_PATH=/opt/lib"),
        ("  conda activate work", ".bashrc:2 changes every shell: conda activate work"),
        ("source ~/venv/bin/activate", ".bashrc:2 changes every shell"),
        ("# >>> conda initialize >>>", ".bashrc activates conda's base in every shell"),
    ],
)
def test_login_files_that_change_every_shell_are_told(line: str, said: str, make_place: MakePlace) -> None:
    """A job's shell reads them, too, on many clusters."""
    place = make_place()
    (place.home / ".bashrc").write_text(f"# mine\n{line}\n# conda activate old\n")
    finding = only(check_environment(place))
    assert (finding.rule, said in finding.text) == ("login-file", True)


def test_conda_that_activates_nothing_by_itself_is_in_order(make_place: MakePlace) -> None:
    """The block alone only defines a function."""
    place = make_place()
    (place.home / ".bashrc").write_text("# >>> conda initialize >>>\n")
    (place.home / ".condarc").write_text("auto_activate_base: false\n")
    assert check_environment(place) == []


def test_a_foreign_helpers_is_told_installed_or_beside_the_code(make_place: MakePlace, project: Path) -> None:
    """The name on the package index belongs to somebody else."""
    place = make_place()
    add_distribution(place.packages, "helpers", by="pip")
    (project / "tests").mkdir()
    (project / "tests" / "helpers.py").touch()
    found = check_environment(place, project=project)
    assert [finding.rule for finding in found] == ["foreign-helpers", "hidden-helpers"]
    assert str(project / "tests" / "helpers.py") in found[1].text


def test_another_build_of_torch_than_the_projects_is_told(make_place: MakePlace) -> None:
    """A later ``pip install`` took the newest one."""
    place = make_place()
    add_distribution(place.packages, "torch-2.13.0+cu130", by="pip")
    (place.packages / "torch-2.13.0+cu130-1.0.dist-info").rename(place.packages / "torch-2.13.0+cu130.dist-info")
    assert only(check_environment(place, cuda="cu126")).rule == "torch-build"
    assert check_environment(place, cuda="cu130") == []


def test_an_environment_that_is_not_this_ones_is_looked_at_by_its_folder(make_place: MakePlace, project: Path) -> None:
    """From the login node, or at the end of its building: what surrounds this process says nothing of it."""
    place = make_place(conda={"numpy": "numpy"}, pip={"numpy": NOW})
    add_distribution(place.packages, "numpy", by="pip", when=NOW)
    done = CliRunner().invoke(app, ["env", "check", "--prefix", str(place.prefix), "--json"])
    assert done.exit_code == 1
    assert [finding["rule"] for finding in json.loads(done.stdout)] == ["two-owners"]
    none = CliRunner().invoke(app, ["env", "check", "--prefix", str(project)])
    assert (none.exit_code, "is no environment" in none.stderr) == (2, True)


def test_the_command_prints_findings_for_programs_and_ends_with_1(tmp_path: Path) -> None:
    """Beside another environment that is active, in a project with a helpers.py of its own."""
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'x'\n[tool.helpers]\n")
    (tmp_path / "helpers.py").touch()
    done = subprocess.run(
        [sys.executable, "-P", "-m", "helpers.cli", "env", "check", "--json"],
        cwd=tmp_path, env={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "VIRTUAL_ENV": str(tmp_path)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    rules = [finding["rule"] for finding in json.loads(done.stdout)]
    assert done.returncode == 1
    assert {"other-interpreter", "hidden-helpers"} <= set(rules)
