"""``helpers fleet``: all projects of a lab."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from helpers.cli.answer import print_json
from helpers.cli.panels import LAB
from helpers.cli.report import JOB_FAILED

if TYPE_CHECKING:
    from helpers.project.fleet.report import ProjectReport

HELP = """Show all projects of a lab: template, drift, library, raw data, last run, checks.

\b
  helpers fleet ~/projects /projects/vision
  helpers fleet ~/projects --json > report.json
  helpers fleet --merge juno.json atlas.json
  helpers fleet update ~/projects --to v1.2

PATH is a project, or a folder with projects in it. Nothing is run, and no network is needed; reports from several hosts
are put together by --merge.

helpers fleet update makes in each project a branch template-COMMIT with the newer template merged and committed. Work
trees stay as they are. Where there are conflicts no branch is made: they are listed, and the exit code is 1.
"""
EXIT_CODES = """\b
Exit codes:
  0  done
  1  update: a project could not be updated, or has conflicts
  2  the request breaks a rule; nothing was changed
"""


def fleet(
    *,
    paths: Annotated[list[Path], typer.Argument(metavar="[update] PATH", help="Projects, or folders of projects.")],
    merge: Annotated[bool, typer.Option("--merge", help="The PATHs are reports, made by --json.")] = False,
    to: Annotated[
        str | None, typer.Option("--to", help="With update: commit, tag or branch of the template; unset, its newest.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="A JSON list, for programs and for --merge.")] = False,
) -> None:
    """Look at projects, or update them; see HELP."""
    from helpers.errors import InvalidRequest
    from helpers.project.fleet.exchange import as_json as json_of
    from helpers.project.fleet.exchange import merge_reports
    from helpers.project.fleet.report import find_projects, look_at

    is_update = paths[0] == Path("update")
    if is_update and len(paths) == 1:
        raise InvalidRequest("helpers fleet update needs a PATH.", hint="helpers fleet update ~/projects")
    if to is not None and not is_update:
        raise InvalidRequest("--to goes with helpers fleet update.", hint="helpers fleet update PATH --to REF")
    if is_update:
        _update(paths[1:], to, as_json=as_json)
        return
    reports = merge_reports(paths) if merge else [look_at(project) for project in find_projects(paths)]
    if as_json:
        typer.echo(json_of(reports))
    else:
        _print_reports(reports)


def _print_reports(reports: list[ProjectReport]) -> None:
    from helpers.cli.table import print_table

    has_hosts = len({report.host for report in reports}) > 1
    titles = [*(["HOST"] if has_hosts else []), "PROJECT", "TEMPLATE", "DRIFT", "HELPERS", "RAW DATA", "LAST RUN"]
    titles += ["CHECKS", "PROBLEM"]
    rows = [
        [
            *([report.host] if has_hosts else []),
            _label(report, reports),
            report.template or "-",
            report.drift,
            report.helpers or "-",
            report.raw_data,
            f"{report.last_run} {_day(report.last_run_at)}".strip() or "-",
            report.checks,
            report.problem,
        ]
        for report in reports
    ]
    print_table(titles, rows)


def _label(report: ProjectReport, reports: list[ProjectReport]) -> str:
    """Return the project's name, with its folder where another on the host has the same."""
    same = [one for one in reports if (one.host, one.name) == (report.host, report.name)]
    return f"{report.name} ({Path(report.path).name})" if len(same) > 1 else report.name


def _day(stamp: str) -> str:
    """Return the day of a run's id: ``20261130-025318`` gives ``2026-11-30``."""
    return f"{stamp[:4]}-{stamp[4:6]}-{stamp[6:8]}" if stamp[:8].isdigit() else ""


def _update(paths: list[Path], to: str | None, *, as_json: bool) -> None:
    from helpers.cli.table import print_table
    from helpers.project.fleet.branches import update_on_branch
    from helpers.project.fleet.report import find_projects
    from helpers.project.template.checkout import checkouts
    from helpers.project.template.rendering import require_cookiecutter

    require_cookiecutter()
    with checkouts() as room:
        branches = [update_on_branch(project, room, to=to) for project in find_projects(paths)]
    if as_json:
        records = [
            {"project": branch.project, "branch": branch.name, "outcome": branch.outcome, "done": branch.is_done}
            for branch in branches
        ]
        print_json(records)
    else:
        rows = [(branch.project.name, branch.name or "-", branch.outcome) for branch in branches]
        print_table(("PROJECT", "BRANCH", "OUTCOME"), rows)
    if not all(branch.is_done for branch in branches):
        raise typer.Exit(JOB_FAILED)


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command(help=HELP, epilog=EXIT_CODES, rich_help_panel=LAB)(fleet)
