"""Say in a sentence why a job waits, from Slurm's one-word reason.

Source of the words: Slurm's "Job Reason Codes" page and ``slurm.h`` (``enum job_state_reason``).
"""

from __future__ import annotations

import re

_SENTENCES = {
    "None": "It has not been looked at by the scheduler yet.",
    "Priority": "Jobs with a higher priority are before it.",
    "Resources": "It is next in line and waits for nodes, GPUs, CPUs or memory to become free.",
    "Dependency": "It waits for other jobs to end.",
    "DependencyNeverSatisfied": "A job that it waits for did not succeed: it will never start.",
    "BeginTime": "Its earliest start lies ahead (a requeued job waits for a moment, too).",
    "JobHeldUser": "It is held by its owner. Release it: scontrol release {job}",
    "JobHeldAdmin": "It is held by an administrator: ask the cluster's support.",
    "JobHoldMaxRequeue": "It was requeued too often and is held: look at its log, then scontrol release {job}",
    "Licenses": "It waits for a licence.",
    "Reservation": "It waits for its reservation to begin.",
    "ReqNodeNotAvail": "Nodes that it needs are down, drained, reserved or about to be serviced.",
    "Cleaning": "Its last attempt is still being cleaned up.",
    "Prolog": "The node is being prepared for it.",
    "NodeDown": "A node that it needs is down.",
    "BadConstraints": "No node has what it asks for: it will never start.",
    "PartitionDown": "Its partition does not start jobs now.",
    "PartitionInactive": "Its partition is switched off.",
    "PartitionNodeLimit": "It asks for more nodes than its partition allows: it will never start.",
    "PartitionTimeLimit": "It asks for more time than its partition allows: it will never start.",
    "PartitionConfig": "Its request does not fit its partition: it will never start.",
    "AccountNotAllowed": "Its account may not use this partition.",
    "AssociationJobLimit": "Your account has as many jobs as it may have at a time.",
    "AssociationResourceLimit": "Your account uses as much as it may use at a time.",
    "AssociationTimeLimit": "Your account has used up its time.",
    "AssocMaxJobsLimit": "Your account has as many jobs running as it may have at a time.",
    "InvalidAccount": "Its account does not exist.",
    "InvalidQOS": "Its quality of service does not exist, or is not yours.",
    "QOSJobLimit": "Its quality of service has as many jobs as it may have.",
    "QOSResourceLimit": "Its quality of service uses as much as it may use.",
    "QOSTimeLimit": "Its quality of service has used up its time.",
    "QOSNotAllowed": "Its quality of service may not be used with this partition or account.",
    "QOSUsageThreshold": "Its quality of service asks for a better fair share than yours is now.",
    "JobArrayTaskLimit": "As many elements of its array run as are allowed at a time (max_running).",
    "MaxMemPerLimit": "It asks for more memory than is allowed.",
    "InactiveLimit": "It was inactive for too long.",
    "SystemFailure": "Slurm itself, its file system or its network has failed.",
    "launch failed requeued held": "It could not be started and is held: mend the node, then scontrol release {job}",
    "job requeued in held state": "It was requeued and is held: scontrol release {job}",
}

# The families of limits that Slurm names by pattern: AssocGrpGRES, QOSMaxCpuPerUserLimit, MaxGRESPerAccount, …
_OWNERS = {"Assoc": "your account", "QOS": "its quality of service"}
_RESOURCES = {
    "GRESMin": "GPU time", "GRESRunMin": "GPU time", "CPUMin": "CPU time", "CpuMin": "CPU time",
    "CPURunMin": "CPU time", "CpuRunMin": "CPU time", "MemMin": "memory over time", "MemRunMin": "memory over time",
    "NodeMin": "node time", "NodeRunMin": "node time", "BillingMin": "billed time", "BillingRunMin": "billed time",
    "GRES": "GPUs", "Cpu": "CPUs", "CPU": "CPUs", "Mem": "memory", "Node": "nodes", "Job": "jobs",
    "Wall": "time", "Billing": "billed units", "Energy": "energy", "License": "licences", "BB": "burst buffer",
}  # fmt: skip
_WHOSE = {"PerAccount": "your account's", "PerAcct": "your account's", "PA": "your account's"}


def why_it_waits(reason: str, job: str) -> str:
    """Return Slurm's reason as a sentence; its own word stands first, for looking it up.

    Args:
        reason: Slurm's word, such as ``"QOSMaxGRESPerUser"``, as ``squeue`` prints it.
        job: The job's id, for the commands that are suggested.
    """
    word = reason.strip().strip("()")
    if not word:
        return ""
    sentence = _SENTENCES.get(word) or _SENTENCES.get(word.partition(",")[0]) or _limit(word)
    return f"{word}: {sentence.format(job=job)}" if sentence else word


def _limit(word: str) -> str:
    match = re.match(r"(Assoc|QOS)?(Grp|Max|Min)(.*)", word)
    if match is None:
        return ""
    rest = re.sub(r"^(Job|Submit)(?=GRES|Cpu|CPU|Mem|Node)", "", match[3])
    what = next((name for key, name in _RESOURCES.items() if key in rest.partition("Per")[0]), "resources")
    by = _OWNERS.get(match[1] or "", "the cluster")
    if match[2] == "Min":
        return f"It asks for fewer {what} than {by} demands: it will never start."
    if "PerJob" in rest or "PerNode" in rest:
        of = "a job" if "PerJob" in rest else "a node"
        return f"It asks for more {what} than {by} allows {of}: it will never start."
    if match[2] == "Grp":
        at_a_time = "" if re.search("(?<!Run)Min|Wall", rest) else " at a time"
        return f"The limit on {what}{at_a_time} for all jobs of {by} together is reached."
    whose = next((name for key, name in _WHOSE.items() if key in rest), "your")
    return f"The limit that {by} sets on {whose} {what} at a time is reached."
