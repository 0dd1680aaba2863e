"""Each layer counts more than the one below it, and each value knows where it comes from."""

from collections.abc import Callable
from pathlib import Path

import pytest

from helpers import InvalidRequest
from helpers.config import find_project, folders, read_settings, runs_folder, storage_folder
from tests.unit.config.conftest import Write


def test_each_layer_counts_more_than_the_one_below(  # noqa: PLR0917 -- a fixture each
    project: Path,
    write_site: Write,
    write_lab: Write,
    write_user: Write,
    write_project: Write,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The order of the contract, with every layer's own word and where it says so."""
    site = write_site('[defaults]\nqos = "of the site"\n')
    lab = write_lab('[defaults]\nqos = "of the lab"\n')
    user = write_user(f'extends = "{lab}"\n[defaults]\nqos = "of the user"\n')
    own = write_project('[tool.helpers.defaults]\nqos = "of the project"\n')
    monkeypatch.setenv("HELPERS_QOS", "of the environment")
    places = [f"{site}:2", f"{lab}:2", f"{user}:3", f"{own}:2", "HELPERS_QOS"]
    found = read_settings(project).entries["qos"]
    layers = ["site", "lab", "user", "project", "environment"]
    assert [entry.value for entry in found] == [f"of the {layer}" for layer in layers]
    assert [(entry.origin.layer, entry.origin.place) for entry in found] == list(zip(layers, places, strict=True))


def test_the_files_are_told_in_order_found_or_not(project: Path, write_lab: Write, write_user: Write) -> None:
    """What somebody looks at who does not know why a setting does not hold."""
    user = write_user(f'extends = "{write_lab("")}"\n')
    looked = read_settings(project).looked_at
    assert [(one.layer, one.found) for one in looked] == [
        ("site", False),
        ("lab", True),
        ("user", True),
        ("project", False),
    ]
    assert looked[1].named == f"{user}:1"


def test_the_library_has_the_lowest_word(project: Path) -> None:
    """A few things hold where nobody says anything; all else is open."""
    settings = read_settings(project)
    values = {
        key: settings.get(key) for key in ("cluster", "requeue", "share", "snapshot", "storage.runs", "partition")
    }
    assert values == {
        "cluster": "auto",
        "requeue": "auto",
        "share": "private",
        "snapshot": True,
        "storage.runs": "runs",
        "partition": None,
    }


def test_a_lab_that_extends_another_counts_more_than_it(project: Path, tmp_path: Path, write_user: Write) -> None:
    """A group within an institute; paths are relative to the file that names them."""
    (tmp_path / "labs").mkdir()
    (tmp_path / "labs" / "institute.toml").write_text('[defaults]\nqos = "institute"\naccount = "institute"\n')
    (tmp_path / "labs" / "group.toml").write_text('extends = "institute.toml"\n[defaults]\nqos = "group"\n')
    write_user(f'extends = "{tmp_path}/labs/group.toml"\n')
    settings = read_settings(project)
    assert (settings.get("qos"), settings.get("account")) == ("group", "institute")


def test_a_lab_that_is_not_there_is_named(project: Path, write_user: Write) -> None:
    """A file system that is not mounted must not change where jobs are billed."""
    file = write_user('\nextends = "/nowhere/lab.toml"\n')
    with pytest.raises(InvalidRequest, match=f"{file}:2: extends names /nowhere/lab.toml"):
        read_settings(project)


def test_labs_in_a_circle_are_named(project: Path, tmp_path: Path, write_user: Write) -> None:
    """Two files that name each other."""
    (tmp_path / "a.toml").write_text('extends = "b.toml"\n')
    (tmp_path / "b.toml").write_text('extends = "a.toml"\n')
    write_user(f'extends = "{tmp_path}/a.toml"\n')
    with pytest.raises(InvalidRequest, match="extends leads back to"):
        read_settings(project)


def test_a_profile_is_put_together_from_all_layers(project: Path, write_user: Write, write_project: Write) -> None:
    """The lab knows the partition, the project how long it takes; the profile counts more than the defaults."""
    write_user('[defaults]\ntime = "1h"\n[profiles.a100]\npartition = "gpu"\ntime = "2h"\n')
    write_project('[tool.helpers.defaults]\npartition = "cpu"\n[tool.helpers.profiles.a100]\ntime = "3h"\n')
    settings = read_settings(project, profile="a100")
    assert (settings.get("partition"), settings.get("time")) == ("gpu", "3h")
    plain = read_settings(project)
    assert (plain.get("partition"), plain.get("time"), plain.profiles) == ("cpu", "1h", ("a100",))


def test_the_environment_counts_more_than_a_profile(
    project: Path, write_user: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A profile is read from files; one command of one user is not."""
    write_user('[profiles.a100]\npartition = "gpu"\n')
    monkeypatch.setenv("HELPERS_PARTITION", "low")
    assert read_settings(project, profile="a100").get("partition") == "low"


def test_the_environment_can_name_the_profile(
    project: Path, write_user: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For a script that knows none."""
    write_user('[profiles.a100]\npartition = "gpu"\n')
    monkeypatch.setenv("HELPERS_PROFILE", "a100")
    assert read_settings(project).get("partition") == "gpu"


def test_a_profile_that_is_nowhere_is_refused_with_the_nearest(project: Path, write_user: Write) -> None:
    """A job on the default partition would be the wrong one."""
    write_user('[profiles.a100]\npartition = "gpu"\n')
    with pytest.raises(InvalidRequest, match=r"no profile 'a10' here\.\n  hint: did you mean a100\?"):
        read_settings(project, profile="a10")


CLUSTERS = """
[defaults]
partition = "everywhere"
[clusters.Demo]
extends = "demo-lab.toml"
[clusters.Demo.defaults]
partition = "on demo"
[clusters.Demo.storage]
runs = "/demo/runs"
[clusters.Demo.profiles.big]
time = "4h"
[clusters.other.defaults]
partition = "on other"
[clusters.other.storage]
runs = "/other/runs"
"""


@pytest.mark.parametrize(
    ("cluster", "partition", "runs", "profiles"),
    [
        ("demo", "on demo", "/demo/runs", ("big",)),
        ("DEMO", "on demo", "/demo/runs", ("big",)),
        ("other", "on other", "/other/runs", ()),
        ("third", "everywhere", "runs", ()),
        (None, "everywhere", "runs", ()),
    ],
)
def test_a_clusters_table_holds_on_that_cluster_alone(  # noqa: PLR0917 -- a fixture each
    project: Path,
    write_user: Write,
    on_cluster: Callable[[str], None],
    cluster: str | None,
    partition: str,
    runs: str,
    profiles: tuple[str, ...],
) -> None:
    """One project serves two clusters, and a laptop; the name is Slurm's own, which has no case."""
    user = write_user(CLUSTERS)
    (user.parent / "demo-lab.toml").write_text("")
    if cluster is not None:
        on_cluster(cluster)
    settings = read_settings(project)
    assert (settings.get("partition"), settings.get("storage.runs"), settings.profiles) == (partition, runs, profiles)


def test_a_clusters_word_in_a_lower_layer_gives_way_to_a_higher_layer(
    project: Path, write_user: Write, write_project: Write, on_cluster: Callable[[str], None]
) -> None:
    """The order of layers is the first rule; within one the cluster's table counts more."""
    on_cluster("demo")
    write_user('[clusters.demo.defaults]\npartition = "of the user"\n')
    write_project('[tool.helpers.defaults]\npartition = "of the project"\n')
    assert read_settings(project).get("partition") == "of the project"


def test_slurm_is_not_asked_where_no_file_has_a_table_for_a_cluster(
    project: Path, write_user: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Submitting costs nothing for what is not used."""
    monkeypatch.setattr("helpers.config.layers.cluster_name", lambda: pytest.fail("asked"))
    write_user('[defaults]\npartition = "x"\n')
    read_settings(project)


@pytest.mark.parametrize("value", ["false", '"none"'])
def test_an_option_of_a_lower_layer_can_be_taken_away(
    project: Path, write_user: Write, write_project: Write, value: str
) -> None:
    """TOML has no null; the others stay."""
    write_user('[defaults.slurm]\nconstraint = "h100"\nmail-type = "END"\n')
    write_project(f"[tool.helpers.defaults.slurm]\nconstraint = {value}\n")
    settings = read_settings(project)
    assert (settings.get("slurm.constraint"), settings.get("slurm.mail-type")) == (None, "END")


def test_a_number_0_is_no_removal(project: Path, write_user: Write) -> None:
    """``--nice=0`` is an answer; in Python 0 equals False."""
    write_user("[defaults.slurm]\nnice = 0\n")
    assert read_settings(project).get("slurm.nice") == 0


@pytest.mark.parametrize(
    ("variable", "text", "key", "value"),
    [
        ("HELPERS_ACCOUNT", "7", "account", "7"),
        ("HELPERS_CPUS", "4", "cpus", 4),
        ("HELPERS_TIME", "90", "time", 90),
        ("HELPERS_TIME", "1-00:00:00", "time", "1-00:00:00"),
        ("HELPERS_REQUEUE", "false", "requeue", False),
        ("HELPERS_SETUP", "module load cuda\nexport A=1", "setup", ["module load cuda", "export A=1"]),
        ("HELPERS_SLURM_MAIL_TYPE", "END", "slurm.mail-type", "END"),
        ("HELPERS_SLURM_EXCLUSIVE", "true", "slurm.exclusive", True),
        ("HELPERS_SLURM_EXPORT", "none", "slurm.export", None),
        ("HELPERS_ARCHIVE", "/archive", "storage.archive", "/archive"),
    ],
)
def test_a_variable_is_read_by_the_kind_of_its_setting(  # noqa: PLR0917 -- what is asked and what is expected
    project: Path, monkeypatch: pytest.MonkeyPatch, variable: str, text: str, key: str, value: object
) -> None:
    """A variable is text; a file is not."""
    monkeypatch.setenv(variable, text)
    entry = read_settings(project).entry(key)
    assert entry is not None
    assert (entry.value, type(entry.value), str(entry.origin)) == (value, type(value), variable)


@pytest.mark.parametrize("name", ["HELPERS_PARTITON", "HELPERS_ACOUNT", "HELPERS_PROFIL"])
def test_a_slip_in_a_variable_is_refused(project: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """The job would run where nobody wanted it, without a word."""
    monkeypatch.setenv(name, "x")
    with pytest.raises(InvalidRequest, match=f"{name} is no setting.\n  hint: did you mean HELPERS_"):
        read_settings(project)


@pytest.mark.parametrize("name", ["HELPERS_RUN", "HELPERS_GPUS", "HELPERS_ALLOW_CPU", "HELPERS_NODES", "HELPERS_X"])
def test_other_variables_are_left_alone(project: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """What a job sets, and what may be somebody else's."""
    monkeypatch.setenv(name, "1")
    assert "gpus" not in read_settings(project).entries


def test_a_wrong_value_in_a_variable_names_it(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a file names its line."""
    monkeypatch.setenv("HELPERS_CPUS", "four")
    with pytest.raises(InvalidRequest, match="HELPERS_CPUS: cpus is a whole number from 1 up; got 'four'"):
        read_settings(project)


def test_relative_storage_lies_in_the_project(project: Path, write_user: Write, write_project: Write) -> None:
    """Whichever file says it: below ``~/.config`` nobody would look for runs."""
    write_user('[storage]\nruns = "results"\n')
    write_project("[tool.helpers]\n")
    assert runs_folder(project / "notebooks") == project / "results"


def test_a_variable_that_is_not_set_is_refused(project: Path, write_user: Write) -> None:
    """Else a folder called ``$SCRATCHH`` would fill the home."""
    file = write_user('[storage]\ndata = "$SCRATCHH/data"\n')
    with pytest.raises(InvalidRequest, match=rf"{file}:2: storage.data is '\$SCRATCHH/data', and \$SCRATCHH is not"):
        storage_folder("data", project)
    assert runs_folder(project) == project / "runs"


def test_storage_that_nobody_names_is_none(project: Path) -> None:
    """There is no good guess for an archive."""
    assert storage_folder("archive", project) is None


def test_a_project_that_a_stranger_planted_is_passed_by(
    project: Path, write_project: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Settings hold shell lines, and everybody can write a file into ``/tmp``."""
    write_project('[tool.helpers.defaults]\nsetup = "touch stray"\n')
    below = project / "below"
    below.mkdir()
    monkeypatch.setattr(folders.os, "getuid", lambda: 4711)
    monkeypatch.setattr(folders, "_ROOT", 4712)
    assert find_project(below) == project  # others cannot write here
    project.chmod(0o1777)
    assert find_project(below) is None
