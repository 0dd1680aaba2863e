"""What could not be loaded in the job is refused before it is queued, named, within seconds."""

import functools
import os
import subprocess
import sys
import textwrap
import types
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf

from helpers import InvalidRequest, Job, submit, submit_array
from helpers.submission.source import preflight
from tests.unit.submission import functions

PATIENCE_S = 240


@dataclass
class Config:
    """Arguments of a training, as people write them."""

    lr: float
    layers: tuple[int, ...]


class LoadsNowhere:
    """Pickles well, and cannot be loaded."""

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return (functions.TwoArguments, ("one",))


@pytest.fixture(autouse=True)
def _nothing_is_known() -> None:
    preflight._checked.clear()


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What a clean interpreter was asked for."""
    asked: list[str] = []
    ask = preflight._ask

    def note(*args: Any, said: str) -> Any:
        asked.append(said)
        return ask(*args, said=said)

    monkeypatch.setattr(preflight, "_ask", note)
    return asked


def write_module(folder: Path, name: str, text: str) -> None:
    (folder / f"{name}.py").write_text(textwrap.dedent(text))


def run_script(folder: Path, text: str, *, cluster: str = "local") -> subprocess.CompletedProcess[str]:
    """Run a user's script in a process of its own."""
    script = folder / "launch.py"
    script.write_text(textwrap.dedent(text).replace("HERE", repr(cluster)))
    return subprocess.run([sys.executable, script], capture_output=True, text=True, check=False, cwd=folder)


def runs(project: Path) -> list[Path]:
    return list((project / "runs").glob("*/*/run.json"))


def test_an_argument_that_cannot_be_loaded_is_refused_by_its_name(project: Path) -> None:
    """C07: it pickles; only the job would find that it does not unpickle, hours later."""
    with pytest.raises(InvalidRequest, match=r"argument 'b' \(.*LoadsNowhere\) cannot be loaded.*TypeError"):
        submit(functions.add, 1, b=LoadsNowhere(), cluster="local")  # type: ignore[arg-type]  # the mistake
    assert runs(project) == []


def test_an_elements_argument_that_cannot_be_loaded_is_refused(project: Path) -> None:
    """One of a thousand, of another kind than the rest."""
    with pytest.raises(InvalidRequest, match=r"argument 0 \(.*LoadsNowhere\) cannot be loaded"):
        submit_array(functions.add, [1, 2, LoadsNowhere()], cluster="local")
    assert runs(project) == []


def test_a_module_off_the_search_path_is_refused_with_its_folder(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found while this session was somewhere else on its path, and not by the job."""
    (project / "elsewhere").mkdir()
    write_module(project / "elsewhere", "lost_module", "def train():\n    return 1\n")
    with monkeypatch.context() as patch:
        patch.syspath_prepend(str(project / "elsewhere"))
        import lost_module  # type: ignore[import-not-found]  # made above
    monkeypatch.setitem(sys.modules, "lost_module", lost_module)
    with pytest.raises(InvalidRequest, match=f"No module named 'lost_module'(.|\n)*PYTHONPATH={project}/elsewhere"):
        submit(lost_module.train, cluster="local")


def test_a_module_made_in_the_session_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is no file that the job could import."""
    module = types.ModuleType("made_here")
    exec("def train():\n    return 1\n", module.__dict__)  # noqa: S102 -- as a notebook's magic does
    monkeypatch.setitem(sys.modules, "made_here", module)
    with pytest.raises(InvalidRequest, match="made_here was made in this session and is no file"):
        submit(module.train, cluster="local")


def test_a_function_that_its_file_has_not_is_refused_with_the_file(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Renamed in the editor after this session had imported it."""
    monkeypatch.syspath_prepend(str(project))
    write_module(project, "renamed_module", "def train():\n    return 1\n")
    import renamed_module  # type: ignore[import-not-found]  # made above

    write_module(project, "renamed_module", "def fit_the_model():\n    return 1\n")
    with pytest.raises(InvalidRequest, match=f"AttributeError(.|\n)*save {project}/renamed_module.py"):
        submit(renamed_module.train, cluster="local")


def test_a_syntax_error_is_refused_with_file_and_line(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half an edit was saved since the module was imported."""
    monkeypatch.syspath_prepend(str(project))
    write_module(project, "broken_module", "def train():\n    return 1\n")
    import broken_module  # type: ignore[import-not-found]  # made above

    write_module(project, "broken_module", "def train():\n    return 1 +\n")
    with pytest.raises(InvalidRequest, match=f"SyntaxError.*{project}/broken_module.py, line 2"):
        submit(broken_module.train, cluster="local")


def test_a_script_without_a_guard_is_refused_with_the_guard(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Imported in the job, it would leave (or submit itself again)."""
    monkeypatch.syspath_prepend(str(project))
    write_module(project, "unguarded_module", "def train():\n    return 1\n")
    import unguarded_module  # type: ignore[import-not-found]  # made above

    write_module(project, "unguarded_module", "import sys\ndef train():\n    return 1\nsys.exit(3)\n")
    with pytest.raises(InvalidRequest, match="__main__"):
        submit(unguarded_module.train, cluster="local")


def test_what_a_module_prints_on_import_is_no_answer(
    project: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Banners go to standard output."""
    monkeypatch.syspath_prepend(str(project))
    write_module(project, "loud_module", "print('{\"part\": 0}')\ndef train():\n    return 7\n")
    import loud_module  # type: ignore[import-not-found]  # made above

    assert submit(loud_module.train, cluster="local").result(PATIENCE_S) == 7
    assert "unchecked" not in capfd.readouterr().err


@pytest.mark.usefixtures("project")
class TestWhatWorks:
    """Everything that people submit."""

    def returned(self, job: Job[Any]) -> Any:
        return job.result(PATIENCE_S)

    def test_a_closure(self) -> None:
        """By value, with what it uses."""
        offset = 5
        assert self.returned(submit(lambda a: a + offset, 1, cluster="local")) == 6

    def test_a_partial(self) -> None:
        """The way to give a parameter that has a reserved name."""
        assert self.returned(submit(functools.partial(functions.add, b=2), 1, cluster="local")) == 3

    def test_a_dataclass(self) -> None:
        """By the module that it is defined in."""
        config = Config(lr=0.1, layers=(4, 4))
        assert self.returned(submit(repr, config, cluster="local")) == repr(config)

    def test_a_dictconfig(self) -> None:
        """What hydra gives."""
        config = OmegaConf.create({"model": {"layers": 3}})
        assert self.returned(submit(lambda cfg: cfg.model.layers, config, cluster="local")) == 3

    def test_a_bound_method(self) -> None:
        """Of an object that is sent along."""
        assert self.returned(submit("a-b".split, "-", cluster="local")) == ["a", "b"]

    def test_an_array(self) -> None:
        """The function once, and one element of each kind."""
        jobs = submit_array(functions.add, [1, 2.5, 3], cluster="local")
        assert [self.returned(job) for job in jobs] == [1, 2.5, 3]


def test_a_function_and_a_class_of_a_script_work(project: Path) -> None:
    """C07 (d): ``__main__`` is another module in the job."""
    done = run_script(
        project,
        """\
        from dataclasses import dataclass
        from helpers import submit

        @dataclass
        class Config:
            lr: float

        def train(config):
            return Config(config.lr * 2)

        if __name__ == "__main__":
            print(submit(train, Config(0.5), cluster=HERE).result(240).lr)
        """,
    )
    assert (done.stdout, done.returncode) == ("1.0\n", 0), done.stderr


def test_a_notebooks_cell_works_also_after_it_has_changed(project: Path) -> None:
    """``__main__`` without a file; the same name is another function after the next cell."""
    done = run_script(
        project,
        """\
        del globals()["__file__"]
        from helpers import InvalidRequest, submit

        class Unloadable:
            def __reduce__(self):
                return (int, ("no number",))

        exec(compile("def train(a):\\n    return a + 1", "<ipython-input-1>", "exec"))
        print(submit(train, 1, cluster=HERE).result(240))
        table = Unloadable()
        exec(compile("def train(a):\\n    return table", "<ipython-input-2>", "exec"))
        try:
            submit(train, 1, cluster=HERE)
        except InvalidRequest as error:
            print(error)
        """,
    )
    assert done.stdout.startswith("2\nthe function train cannot be loaded"), done.stderr


def test_a_script_that_imports_a_neighbour_works(project: Path) -> None:
    """C13: the job's search path is the caller's, with the script's folder."""
    (project / "scripts").mkdir()
    write_module(project / "scripts", "neighbour", "def train():\n    return 'here'\n")
    script = project / "scripts" / "launch.py"
    script.write_text(
        "from helpers import submit\nfrom neighbour import train\n"
        'if __name__ == "__main__":\n    print(submit(train, cluster="local").result(240))\n'
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False, cwd=project)
    assert (done.stdout, done.returncode) == ("here\n", 0), done.stderr


def test_a_later_submission_asks_nothing(asked: list[str]) -> None:
    """A loop of submissions costs one clean interpreter."""
    for number in range(3):
        submit(functions.add, number, cluster="local").result(PATIENCE_S)
    assert len(asked) == 1


def test_another_kind_of_argument_is_asked_for_again(asked: list[str]) -> None:
    """It is the argument that may not load."""
    submit(functions.add, 1, cluster="local").result(PATIENCE_S)
    with pytest.raises(InvalidRequest):
        submit(functions.add, LoadsNowhere(), cluster="local")  # type: ignore[arg-type]  # the mistake
    assert len(asked) == 3  # the second, and which part of it


def test_a_run_in_this_process_asks_nothing(asked: list[str]) -> None:
    """It loads nothing."""
    submit(functions.add, 1, cluster="inline")
    assert asked == []


def test_the_clean_interpreter_loads_no_torch(project: Path) -> None:
    """Three seconds, unless the user's own module needs it."""
    code = "import sys, helpers.runtime.rank.trial; print(sorted({'torch', 'numpy', 'submitit'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_an_interpreter_that_takes_too_long_is_given_up_and_said(
    project: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """A cold file system is no reason to refuse."""
    monkeypatch.setattr(preflight, "TIME_LIMIT_S", 0.01)
    assert submit(functions.add, 1, cluster="local").result(PATIENCE_S) == 1
    said = "took more than 0 s and was given up; the job is submitted unchecked\n"
    assert f"helpers: the trial load of tests.unit.submission.functions.add {said}" in capfd.readouterr().err


def test_an_interpreter_that_dies_is_said_and_no_refusal(
    project: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """A login node's memory limit kills what a compute node would bear."""
    monkeypatch.syspath_prepend(str(project))
    write_module(project, "dying_module", "def train():\n    return 1\n")
    import dying_module  # type: ignore[import-not-found]  # made above

    write_module(
        project,
        "dying_module",
        """\
        import os, sys
        if "helpers.runtime.rank.trial" in sys.orig_argv:
            os.kill(os.getpid(), 9)
        def train():
            return 1
        """,
    )
    assert submit(dying_module.train, cluster="local").result(PATIENCE_S) == 1
    assert "ended without an answer (exit code -9)" in capfd.readouterr().err


def test_the_check_can_be_switched_off(asked: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever knows better."""
    monkeypatch.setenv("HELPERS_PREFLIGHT", "0")
    submit(functions.add, 1, cluster="local").result(PATIENCE_S)
    assert asked == []


def test_the_clean_interpreter_is_in_no_job(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has the environment that a job starts from: submitted from inside one, without that one's variables."""
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setenv("COLOUR", "ash grey")
    environment = preflight._environment(project)
    assert ("SLURM_JOB_ID" in environment, environment["COLOUR"]) == (False, os.environ["COLOUR"])


def test_what_a_module_starts_on_import_holds_up_no_answer(
    project: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """A server that outlives the trial has its stderr: nobody may wait for that to close."""
    monkeypatch.syspath_prepend(str(project))
    monkeypatch.setattr(preflight, "TIME_LIMIT_S", 10.0)
    write_module(project, "serving_module", "def train():\n    return 1\n")
    import serving_module  # type: ignore[import-not-found]  # made above

    write_module(
        project,
        "serving_module",
        "import subprocess\nsubprocess.Popen(['sleep', '30'])\ndef train():\n    return 1\n",
    )
    assert submit(serving_module.train, cluster="local").result(PATIENCE_S) == 1
    assert "unchecked" not in capfd.readouterr().err
