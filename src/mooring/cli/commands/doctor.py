"""`mooring doctor`: what is wrong or risky with storage and scheduling, ranked, from a cluster or files. Read-only."""

from collections.abc import Iterator
from typing import Final, Unpack

import click

from mooring.cli import terminal
from mooring.cli.options import output_option
from mooring.cli.sources import SourceFlags, cluster_objects, read, source_options
from mooring.cli.terminal import ClusterUnavailable, ExitCode, InvalidInput
from mooring.doctor.examination import CODES, EXAMINED_KINDS, RBAC_KINDS, examine, incomplete
from mooring.doctor.findings import PAGE, Diagnosis, Finding, Severity

#: In the server's logs.
NAME: Final = "mooring-doctor"


@click.command()
@click.option(
    "--fail-on",
    type=click.Choice([each.value for each in Severity]),
    default=Severity.WARNING.value,
    show_default=True,
    help="Least severity of a finding that makes the exit code 1.",
)
@click.option(
    "--ignore",
    "ignored",
    multiple=True,
    metavar="CODE",
    help="Code whose findings are accepted and not shown. Repeatable.",
)
@output_option("text", "json", "yaml")
@source_options
def doctor(fail_on: str, ignored: tuple[str, ...], output: str, **source: Unpack[SourceFlags]) -> None:
    """List what is wrong or risky with the storage and scheduling of a cluster, the gravest first, each with its
    evidence and a fix. Nothing is changed.

    Reads any Kubernetes cluster, or files with the output of kubectl get. Checks whose objects may not be listed are
    skipped and named. `mooring docs doctor` describes every code.

    Exit codes: 0 when nothing of the severity of --fail-on was found; 1 when something was; 2 when flags, files or
    kubeconfig are wrong; 3 when the cluster cannot be read, or nothing was found and objects that decisions depend on
    may not be listed.
    """
    if unknown := sorted(set(ignored) - set(CODES)):
        raise InvalidInput(f"No finding has the code {', '.join(unknown)}; `mooring docs {PAGE}` lists all codes.")
    objects = cluster_objects(read(source, EXAMINED_KINDS, component=NAME), kinds=RBAC_KINDS)
    found = examine(objects, fail_on=Severity(fail_on), accepted=ignored)
    if not terminal.echo_document(found, output):
        terminal.styled(found.verdict, fg="green" if found.ok else "red", bold=True)
        for line in _lines(found):
            click.echo(line)
    if found.ok and (unseen := list(incomplete(objects))):
        raise ClusterUnavailable(f"A clean result needs all objects: {'; '.join(unseen)}.")
    click.get_current_context().exit(ExitCode.OK if found.ok else ExitCode.PROBLEM)


def _lines(found: Diagnosis) -> Iterator[str]:
    for one in found.findings:
        yield ""
        yield from _finding_lines(one)
    if found.skipped:
        yield ""
        yield "skipped:"
        yield from (f"  {one.code}: {one.reason}" for one in found.skipped)


def _finding_lines(one: Finding) -> Iterator[str]:
    yield f"{one.severity.upper()} {one.code}: {one.object}"
    yield f"  {one.problem}"
    yield from (f"    {each}" for each in one.evidence)
    yield f"  fix: {one.fix}"
