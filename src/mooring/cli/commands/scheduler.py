"""`mooring scheduler`: the scheduler as a process of its own, against any Kubernetes."""

from pathlib import Path
from typing import Final, Unpack

import click

from mooring.api import well_known
from mooring.cli.options import (
    FILE,
    ProcessFlags,
    hold_namespace_option,
    process_options,
    read_scheduler_configuration,
    settings_of,
)
from mooring.cli.process import ComponentRuntime, run_component
from mooring.cli.terminal import InvalidInput
from mooring.control.component import Component
from mooring.scheduler.attempt_log import PATH, AttemptLog
from mooring.scheduler.component import Scheduler
from mooring.scheduler.configuration import Configuration
from mooring.scheduler.framework.cycle import Profile
from mooring.scheduler.registry import SCORING

#: In logs, user agents and the Lease. Differs from kube-scheduler's, whose Lease it must not wait for.
NAME: Final = "mooring-scheduler"
#: kube-scheduler's former port for plain HTTP.
PORT: Final = 10251


@click.command()
@click.option(
    "--config",
    type=FILE,
    metavar="FILE",
    help="KubeSchedulerConfiguration file; supported fields: `mooring docs scheduler`.",
)
@click.option(
    "--scheduler-name",
    multiple=True,
    metavar="NAME",
    help="Schedule pods with this schedulerName; repeatable; not with --config.  [default: default-scheduler]",
)
@click.option(
    "--scoring",
    type=click.Choice(list(SCORING)),
    default="mooring",
    show_default=True,
    help="Formula for volumes among the scores of nodes; kube-scheduler selects the nodes that kube-scheduler does.",
)
@hold_namespace_option
@process_options(port=PORT)
def scheduler(
    config: Path | None,
    scheduler_name: tuple[str, ...],
    scoring: str,
    hold_namespace: str,
    **flags: Unpack[ProcessFlags],
) -> None:
    """Schedule pods and their volumes on the nodes of any Kubernetes cluster, until SIGTERM or Ctrl-C.

    Set --scheduler-name where another scheduler runs.

    Exit codes: 0 when told to stop; 1 when the API server or the port cannot be used, or the lease is lost; 2 when
    flags, configuration file or kubeconfig are wrong.
    """
    configuration = _configuration(config, scheduler_name, SCORING[scoring])
    settings = settings_of(flags, name=NAME, file=configuration.election, kubeconfig=configuration.kubeconfig)
    attempts = AttemptLog()

    def build(runtime: ComponentRuntime) -> Component:
        return Scheduler(
            runtime.context(),
            profiles=configuration.profiles,
            recorders={name: runtime.recorder(name) for name in configuration.profiles},
            bind_timeout=configuration.bind_timeout,
            backoff=configuration.backoff,
            hold_namespace=hold_namespace,
            registry=runtime.metrics.registry,
            attempts=attempts,
        )

    run_component(
        settings,
        build,
        log_level=flags["log_level"],
        greeting=f"schedules for {', '.join(configuration.profiles)} at {settings.access.server}",
        parts=["scheduler"],
        debug={PATH: attempts.document},
    )


def _configuration(file: Path | None, names: tuple[str, ...], profile: Profile) -> Configuration:
    if "" in names:
        raise InvalidInput("--scheduler-name must not be empty.")
    if file is None:
        return Configuration(profiles=dict.fromkeys(names or (well_known.DEFAULT_SCHEDULER,), profile))
    if names:
        raise InvalidInput("--scheduler-name cannot be combined with --config: name them in its profiles.")
    return read_scheduler_configuration(file, profile)
