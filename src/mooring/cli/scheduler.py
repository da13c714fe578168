"""`mooring scheduler`: the scheduler as a process of its own, against any Kubernetes."""

import random
from pathlib import Path
from typing import TYPE_CHECKING, Final, Unpack

import click

from mooring import __version__
from mooring.cli.event_loop import run
from mooring.cli.process_options import (
    Misconfigured,
    ProcessFlags,
    hold_namespace_option,
    process_options,
    settings_of,
)
from mooring.clock import SystemClock

if TYPE_CHECKING:
    from mooring.cli.component_process import ProcessSettings, Surroundings
    from mooring.control.component import Component
    from mooring.scheduler.configuration import Configuration

#: In logs and user agents, and of the Lease. Not kube-scheduler's: beside it, ours must not wait for its lease.
NAME: Final = "mooring-scheduler"
#: Where kube-scheduler answered over plain HTTP when it still did.
PORT: Final = 10251


@click.command(short_help="Run the scheduler against a Kubernetes.")
@click.option(
    "--config",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="A KubeSchedulerConfiguration; what of it is supported stands in `mooring docs scheduler`.",
)
@click.option(
    "--scheduler-name",
    multiple=True,
    metavar="NAME",
    help="Place the pods whose schedulerName is this; may be given several times.  [default: default-scheduler]",
)
@hold_namespace_option
@process_options(port=PORT)
def scheduler(
    config: Path | None, scheduler_name: tuple[str, ...], hold_namespace: str, **flags: Unpack[ProcessFlags]
) -> None:
    """Place pods and their volumes on the nodes of any Kubernetes, until SIGTERM or Ctrl-C.

    Give it a --scheduler-name of its own where another scheduler is at work.

    Exit codes: 0 when told to stop; 1 when the API server or the port cannot be used, or the lease is lost; 2 when
    flags, configuration file or kubeconfig are wrong.
    """
    from mooring.cli.component_process import ProcessFailed
    from mooring.cli.logs import configure
    from mooring.server.http.listening import CannotListen

    configuration = _configuration(config, scheduler_name)
    settings = settings_of(flags, name=NAME, file=configuration.election, kubeconfig=configuration.kubeconfig)
    configure(flags["log_level"])
    try:
        run(_run(settings, configuration, hold_namespace))
    except (ProcessFailed, CannotListen) as error:
        raise click.ClickException(str(error)) from error


def _configuration(file: Path | None, names: tuple[str, ...]) -> "Configuration":
    from mooring.api.yaml_documents import MalformedYaml, single_document
    from mooring.scheduler.configuration import Configuration, ConfigurationError, read
    from mooring.scheduler.registry import DEFAULT

    if "" in names:
        raise Misconfigured("--scheduler-name must not be empty.")
    if file is None:
        return Configuration(profiles=dict.fromkeys(names, DEFAULT)) if names else Configuration()
    if names:
        raise Misconfigured("--scheduler-name cannot be combined with --config: name them in its profiles.")
    try:
        return read(single_document(file.read_bytes()))
    except OSError as error:
        raise Misconfigured(f"{file}: {error.strerror}.") from error
    except (MalformedYaml, ConfigurationError) as error:
        raise Misconfigured(f"{file}: {error}.") from error


async def _run(settings: "ProcessSettings", configuration: "Configuration", hold_namespace: str) -> None:
    from mooring.cli.component_process import run_process
    from mooring.scheduler.attempt_log import PATH, AttemptLog
    from mooring.scheduler.component import Scheduler

    attempts = AttemptLog()

    def build(surroundings: "Surroundings") -> "Component":
        return Scheduler(
            surroundings.context(),
            profiles=configuration.profiles,
            recorders={name: surroundings.recorder(name) for name in configuration.profiles},
            bind_timeout=configuration.bind_timeout,
            patience=configuration.patience,
            hold_namespace=hold_namespace,
            registry=surroundings.metrics.registry,
            attempts=attempts,
        )

    def announce(url: str) -> None:
        click.echo(
            f"Mooring {__version__} schedules for {', '.join(configuration.profiles)} at {settings.access.server}"
        )
        if url:
            click.echo(f"  health and metrics at {url}")

    clock, rng = SystemClock(), random.SystemRandom()
    debug = {PATH: attempts.document}
    await run_process(settings, build, clock=clock, rng=rng, announce=announce, parts=["scheduler"], debug=debug)
