"""Why a job waits, in a sentence, for each family of Slurm's words."""

import pytest

from helpers.submission.jobs.reasons import _SENTENCES, why_it_waits


@pytest.mark.parametrize("word", _SENTENCES)
def test_each_word_comes_first_and_its_sentence_after_it(word: str) -> None:
    """The word is what a search engine and the cluster's support know."""
    said = why_it_waits(word, "4711")
    assert said.startswith(f"{word}: ")
    assert said.count("{") == 0
    assert len(said) > len(word) + 10


@pytest.mark.parametrize(
    ("word", "sentence"),
    [
        ("AssocGrpGRES", "The limit on GPUs at a time for all jobs of your account together is reached."),
        ("AssocGrpCpuLimit", "The limit on CPUs at a time for all jobs of your account together is reached."),
        ("AssocGrpGRESMinutes", "The limit on GPU time for all jobs of your account together is reached."),
        ("AssocGrpGRESRunMinutes", "The limit on GPU time at a time for all jobs of your account together is reached."),
        ("AssocGrpCPUMinutesLimit", "The limit on CPU time for all jobs of your account together is reached."),
        ("AssocGrpWallLimit", "The limit on time for all jobs of your account together is reached."),
        (
            "AssocMaxWallDurationPerJobLimit",
            "It asks for more time than your account allows a job: it will never start.",
        ),
        ("AssocMaxNodePerJobLimit", "It asks for more nodes than your account allows a job: it will never start."),
        ("QOSGrpNodeLimit", "The limit on nodes at a time for all jobs of its quality of service together is reached."),
        ("QOSMaxGRESPerUser", "The limit that its quality of service sets on your GPUs at a time is reached."),
        ("QOSMaxCpuPerUserLimit", "The limit that its quality of service sets on your CPUs at a time is reached."),
        (
            "QOSMaxMemoryPerJob",
            "It asks for more memory than its quality of service allows a job: it will never start.",
        ),
        ("QOSMaxGRESPerNode", "It asks for more GPUs than its quality of service allows a node: it will never start."),
        ("QOSMinGRES", "It asks for fewer GPUs than its quality of service demands: it will never start."),
        ("MaxGRESPerAccount", "The limit that the cluster sets on your account's GPUs at a time is reached."),
    ],
)
def test_a_limit_is_told_by_the_parts_of_its_name(word: str, sentence: str) -> None:
    """Slurm has some hundred of them, made of who, how and what."""
    assert why_it_waits(word, "4711") == f"{word}: {sentence}"


@pytest.mark.parametrize("word", ["JobHeldUser", "launch failed requeued held", "job requeued in held state"])
def test_the_command_that_helps_names_the_job(word: str) -> None:
    """It is to be pasted."""
    assert "scontrol release 4711" in why_it_waits(word, "4711")


@pytest.mark.parametrize(
    ("printed", "begin"),
    [
        ("(Resources)", "Resources: It is next in line"),
        ("ReqNodeNotAvail, UnavailableNodes:gpu[1-2]", "ReqNodeNotAvail, UnavailableNodes:gpu[1-2]: Nodes that"),
        ("A_word_of_a_later_Slurm", "A_word_of_a_later_Slurm"),
        ("", ""),
        (" ", ""),
    ],
)
def test_what_is_printed_around_a_word_or_is_not_known_does_no_harm(printed: str, begin: str) -> None:
    """Slurm puts parentheses around it, and adds nodes to some."""
    assert why_it_waits(printed, "4711").startswith(begin)
    assert bool(why_it_waits(printed, "4711")) is bool(begin)
