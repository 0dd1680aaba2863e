"""``module:function`` finds what ``python -m`` would, and says what is wrong where it does not."""

import sys
from pathlib import Path

import pytest

from helpers.cli.target import load_function
from helpers.errors import InvalidRequest


@pytest.mark.parametrize(
    ("target", "message", "hint"),
    [
        ("scirpt:main", "There is no module 'scirpt'", "did you mean script?"),
        ("script:mian", "script has no function 'mian'", "did you mean script:main?"),
        ("script:zzz", "script has no function 'zzz'", "script has: fail, main, nothing, ranks, sleep"),
        ("script:NUMBER", "script:NUMBER is no function: it is 3", "script has: fail, main, nothing, ranks, sleep"),
        ("script.py:main", "written as module:function; got 'script.py:main'", "helpers submit script:main"),
        ("./sub/script.py", "written as module:function", "helpers submit sub.script:main"),
        ("script.main", "written as module:function", "helpers submit script:main"),
        ("script", "written as module:function", "helpers submit script:main"),
        (":main", "written as module:function", "helpers submit train:main lr=1e-3"),
    ],
)
def test_a_wrong_target_is_named_with_the_nearest(target: str, message: str, hint: str) -> None:
    """A slip of the finger costs one look at the hint."""
    with pytest.raises(InvalidRequest, match=message) as refused:
        load_function(target)
    assert refused.value.hint == hint


def test_the_nearest_module_is_sought_in_its_package(project: Path) -> None:
    """The module that was meant stands beside the one that was typed."""
    (project / "package_of_cli").mkdir()
    (project / "package_of_cli" / "__init__.py").touch()
    (project / "package_of_cli" / "evaluate.py").touch()
    with pytest.raises(InvalidRequest) as refused:
        load_function("package_of_cli.evalaute:main")
    assert refused.value.hint == "did you mean package_of_cli.evaluate?"


def test_a_module_that_breaks_shows_its_own_lines_only(project: Path) -> None:
    """The user's line is what has to change; thirty lines of import machinery hide it."""
    (project / "broken_one.py").write_text("import script.no_such_part\n")
    with pytest.raises(InvalidRequest) as refused:
        load_function("broken_one:main")
    shown = refused.value.message
    assert "No module named 'script.no_such_part'" in shown
    assert 'broken_one.py", line 1' in shown
    assert "importlib" not in shown


def test_a_script_that_leaves_while_imported_is_told_about_main(project: Path) -> None:
    """A script without a guard parses our command line as its own, and exits."""
    (project / "unguarded.py").write_text("import sys\nsys.exit(2)\n")
    with pytest.raises(InvalidRequest) as refused:
        load_function("unguarded:main")
    assert 'if __name__ == "__main__":' in refused.value.hint


def test_what_the_module_prints_stays_out_of_the_answer(capsys: pytest.CaptureFixture[str]) -> None:
    """``id=$(helpers submit …)`` holds an id, whatever a user's module says when it is imported."""
    load_function("script:main")
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("", "imported\n")


def test_a_method_can_be_named(project: Path) -> None:
    """A function may live in a class."""
    (project / "holder.py").write_text("class A:\n    @staticmethod\n    def go():\n        return 5\n")
    assert load_function("holder:A.go")() == 5


def test_a_module_that_needs_what_is_not_installed_says_so(project: Path) -> None:
    """A traceback inside the error, and a hint that shows it again, help nobody."""
    file = project / "needs_missing.py"
    file.write_text("\nimport pandaz.frames\n")
    with pytest.raises(InvalidRequest) as refused:
        load_function("needs_missing:main")
    assert refused.value.message == (
        f"needs_missing needs 'pandaz', which is not installed in {sys.executable} ({file}, line 2)."
    )
    assert refused.value.hint == (
        f"{sys.executable} -m pip install pandaz; in a project, add it to the dependencies in pyproject.toml, "
        "then: make setup"
    )


@pytest.mark.parametrize(
    ("target", "hint"),
    [
        ("wave_fit.wave", "helpers submit wave_fit.wave:quick"),
        ("wave_fit.wave.quick", "helpers submit wave_fit.wave:quick"),
        ("wave_fit", "helpers submit wave_fit:main"),
    ],
)
def test_a_module_without_a_function_is_told_one_of_its_own(project: Path, target: str, hint: str) -> None:
    """``wave_fit:wave`` was suggested, and is a module."""
    (project / "wave_fit").mkdir()
    (project / "wave_fit" / "__init__.py").write_text("raise AssertionError('imported for a hint')\n")
    (project / "wave_fit" / "wave.py").write_text("def _inner(): ...\ndef quick(a): ...\ndef slow(a): ...\n")
    with pytest.raises(InvalidRequest) as refused:
        load_function(target)
    assert refused.value.hint == hint
