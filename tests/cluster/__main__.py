"""Start, show and stop a cluster by hand: ``python -m tests.cluster up``.

``up`` prints one line for the shell on stdout, all else goes to stderr, so this works:

    eval "$(python -m tests.cluster up)"

Exit codes: 0 done, 1 it failed or (``status``) none is running, 2 wrong usage, 3 not possible here.
"""

import argparse
import shlex
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import get_args

from tests.cluster.availability import why_unavailable
from tests.cluster.cluster import PREFIX, Cluster, remove_abandoned
from tests.cluster.failure import ClusterError
from tests.cluster.layout import Layout
from tests.cluster.processes import alive
from tests.cluster.settings import ClusterSettings, ProcessTracking
from tests.cluster.startup import SLURMCTLD, nodes_are_idle
from tests.cluster.teardown import Record, read_record, tear_down

DEFAULT_FOLDER = Path(tempfile.gettempdir()) / PREFIX
DEFAULTS = ClusterSettings()


def main() -> int:
    """Parse, do one thing, return the exit code."""
    options = _parser().parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that half a cluster is taken down again
    try:
        return {"up": up, "down": down, "status": status}[options.command](options)
    except ClusterError as error:
        _say(f"cluster: {error}")
        return 1


def up(options: argparse.Namespace) -> int:
    """Leave a cluster running in the background and print the line that makes a shell its client."""
    if reason := why_unavailable():
        _say(reason)
        return 3
    record = read_record(options.folder)
    if record is not None and _runs(record):
        _say(f"cluster: runs already, with the settings it was started with: {options.folder}")
        print(_export_line(record.layout))
        return 0
    if record is not None:
        _say(f"cluster: removing what is left of one that no longer runs: {options.folder}")
        tear_down(record.layout)
    begin = time.monotonic()
    cluster = Cluster(_settings(options), folder=options.folder, background=True)
    cluster.start()
    _say(f"cluster: up in {time.monotonic() - begin:.1f} s: {', '.join(cluster.nodes)}")
    print(_export_line(cluster.layout))
    return 0


def down(options: argparse.Namespace) -> int:
    """Stop the cluster in this folder; without one given, also those whose process was killed."""
    record = read_record(options.folder)
    if record is not None:
        tear_down(record.layout)
        _say(f"cluster: down, {options.folder} removed; in its client's shell: unset SLURM_CONF HELPERS_ALLOW_CPU")
    abandoned = remove_abandoned() if options.folder == DEFAULT_FOLDER else []
    for folder in abandoned:
        _say(f"cluster: removed an abandoned one, {folder}")
    if record is None and not abandoned:
        _say(f"cluster: none in {options.folder}")
    return 0


def status(options: argparse.Namespace) -> int:
    """Say which daemons run, and print the line again."""
    record = read_record(options.folder)
    if record is None:
        _say(f"cluster: none in {options.folder}")
        return 1
    for file in sorted(record.layout.pids.glob("*")):
        pid = alive(file.read_text())
        _say(f"{file.name:24} {'ended' if pid is None else f'pid {pid}'}")
    _say(f"proctrack {record.proctrack}, accounting {'on' if record.accounting else 'off'}")
    _say("both nodes are idle" if nodes_are_idle(record.layout) else "not every node is idle; see sinfo")
    print(_export_line(record.layout))
    return 0 if _runs(record) else 1


def _runs(record: Record) -> bool:
    pid_file = record.layout.pids / SLURMCTLD
    return pid_file.is_file() and alive(pid_file.read_text()) is not None


def _export_line(layout: Layout) -> str:
    """Name the cluster; and say that its GPUs are stand-ins, so that training may use the CPU in their place."""
    return f"export SLURM_CONF={shlex.quote(str(layout.slurm_conf))} HELPERS_ALLOW_CPU=1"


def _settings(options: argparse.Namespace) -> ClusterSettings:
    return ClusterSettings(
        accounting=options.accounting,
        proctrack=options.proctrack,
        affinity=options.affinity,
        max_array_size=options.max_array_size,
        min_job_age=options.min_job_age,
        grace_time=options.grace_time,
    )


def _parser() -> argparse.ArgumentParser:
    folder = argparse.ArgumentParser(add_help=False)
    folder.add_argument(
        "--folder",
        type=Path,
        default=DEFAULT_FOLDER,
        metavar="DIR",
        help=f"its state; default {DEFAULT_FOLDER}",
    )
    parser = argparse.ArgumentParser(prog="python -m tests.cluster", description="A real Slurm on this machine.")
    commands = parser.add_subparsers(dest="command", required=True)
    start = commands.add_parser("up", parents=[folder], help="start it in the background")
    start.add_argument("--no-accounting", dest="accounting", action="store_false", help="no sacct, no database")
    start.add_argument("--proctrack", choices=get_args(ProcessTracking), default=DEFAULTS.proctrack)
    start.add_argument("--affinity", action="store_true", help="bind tasks; nodes have this machine's CPUs")
    for name, unit in (("max-array-size", "N"), ("min-job-age", "S"), ("grace-time", "S")):
        default = getattr(DEFAULTS, name.replace("-", "_"))
        start.add_argument(f"--{name}", type=int, metavar=unit, default=default, help=f"default {default}")
    commands.add_parser("down", parents=[folder], help="stop it and remove its folder")
    commands.add_parser("status", parents=[folder], help="say what runs")
    return parser


def _say(text: str) -> None:
    print(text, file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
