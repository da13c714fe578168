"""`mooring coordinator`, and `--drain`, which resolves all holds and exits."""

import asyncio
import random
from typing import Final, Unpack

import click
import msgspec

from mooring.api.errors import ApiError, Forbidden
from mooring.cli.options import ProcessFlags, duration_option, hold_namespace_option, process_options, settings_of
from mooring.cli.process import ComponentRuntime, ProcessFailed, ProcessSettings, run_process
from mooring.cli.runtime import api_errors_as, configure_logging, run_event_loop, stop_event
from mooring.cli.terminal import InvalidInput
from mooring.client.contract import Unreachable
from mooring.client.http import HttpClient
from mooring.clock import SystemClock
from mooring.control.component import Component
from mooring.control.metrics import Metrics
from mooring.coordinator.claim_states import CoordinatorSettings
from mooring.coordinator.component import Coordinator
from mooring.coordinator.drain import (
    AnotherCoordinator,
    HoldDrain,
    RemainingHolds,
    UnprotectedHoldNamespace,
    check_hold_namespace,
)
from mooring.volumes.holds.policy import HoldTimeouts

#: In logs and user agents, and of the Lease: provisioners look for it under this name.
NAME: Final = "mooring-coordinator"
PORT: Final = 10262


@click.command()
@hold_namespace_option
@duration_option(
    "--sibling-timeout",
    "15s",
    "Roll back a held volume when another volume of its pod has not been requested for this long; must exceed the "
    "retry interval of schedulers.",
    former="--grace",
)
@duration_option(
    "--unused-timeout",
    "60s",
    "Roll back a held volume when no pod has used its claim for this long.",
    former="--abandon",
)
@duration_option("--hold-timeout", "10m", "Maximum time that a volume is held.", former="--max-hold")
@click.option(
    "--nominate-for",
    metavar="SCHEDULER",
    multiple=True,
    help="After a rollback, nominate pods of this scheduler to another node; for kube-scheduler without the extender. "
    "Repeatable.",
)
@click.option(
    "--drain",
    is_flag=True,
    help="Commit complete sets of held volumes, roll back the others, then exit. Other coordinators must be stopped, "
    "provisioners must run.",
)
@duration_option("--drain-timeout", "5m", "Maximum duration of --drain.")
@process_options(port=PORT)
def coordinator(
    hold_namespace: str,
    sibling_timeout: float,
    unused_timeout: float,
    hold_timeout: float,
    nominate_for: tuple[str, ...],
    drain: bool,
    drain_timeout: float,
    **flags: Unpack[ProcessFlags],
) -> None:
    """Commit the held volumes of a pod together or roll them back, until SIGTERM or Ctrl-C.

    Provisioners with --enable-rollback hold volumes until all volumes of the pod are available; the guarantees are in
    `mooring docs rollback`.

    Exit codes: 0 when stopped by a signal; 1 when the API server or the port cannot be used, or the lease is lost; 2
    when flags or kubeconfig are wrong, or ordinary users can write to the hold namespace. With --drain: 0 when nothing
    is held any more; 1 when something still is, or when another coordinator is running.
    """
    if flags["leader_elect_resource_namespace"] is None:
        flags["leader_elect_resource_namespace"] = hold_namespace
    process = settings_of(flags, name=NAME)
    timeouts = HoldTimeouts(sibling=sibling_timeout, unused=unused_timeout, hold=hold_timeout)
    settings = CoordinatorSettings(
        hold_namespace=hold_namespace,
        timeouts=timeouts,
        renews_lease=process.election is None,
        nominate_for=frozenset(nominate_for),
    )
    configure_logging(flags["log_level"])
    run_event_loop(_drain(process, settings, timeout=drain_timeout) if drain else _run(process, settings))


async def _run(process: ProcessSettings, settings: CoordinatorSettings) -> None:
    await _check_namespace(process, settings.hold_namespace)

    def build(runtime: ComponentRuntime) -> Component:
        return Coordinator(runtime.context(), settings, registry=runtime.metrics.registry)

    greeting = f"coordinates volumes of {process.access.server}"
    await run_process(process, build, greeting=greeting, parts=[NAME])


async def _check_namespace(process: ProcessSettings, namespace: str) -> None:
    client = HttpClient(process.access, component=NAME, clock=SystemClock())
    try:
        with api_errors_as(ProcessFailed):
            try:
                await check_hold_namespace(client, namespace)
            except UnprotectedHoldNamespace as error:
                raise InvalidInput(str(error)) from error
            except Forbidden as error:
                raise ProcessFailed(
                    f"Cannot check write access to namespace {namespace}: {error.message}; allow creating "
                    "subjectaccessreviews in authorization.k8s.io."
                ) from error
    finally:
        await client.close()


async def _drain(process: ProcessSettings, settings: CoordinatorSettings, *, timeout: float) -> None:
    """Raises ProcessFailed, with the remaining holds, on a timeout or a signal."""
    clock, rng = SystemClock(), random.SystemRandom()
    client = HttpClient(process.access, component=process.name, clock=clock)
    runtime = ComponentRuntime(process, client, clock, rng, Metrics(clock))
    settings = msgspec.structs.replace(settings, timeouts=HoldTimeouts(draining=True), renews_lease=False)
    coordinator = Coordinator(runtime.context(), settings, registry=runtime.metrics.registry)
    draining = HoldDrain(client, clock, runtime.informers, hold_namespace=settings.hold_namespace)
    progress = _Progress()
    try:
        await draining.wait_until_sole()
        async with asyncio.TaskGroup() as group:
            around = group.create_task(runtime.run(), name="runtime")
            await runtime.informers.wait_synced()
            deciding = group.create_task(coordinator.run(), name=process.name)
            is_over = await _ended(draining, progress, timeout=timeout)
            for task in (deciding, around):
                task.cancel()
    except AnotherCoordinator as error:
        raise ProcessFailed(str(error)) from error
    except (ApiError, Unreachable) as error:
        raise ProcessFailed(f"Cannot use the API server: {error}.") from error
    finally:
        await client.close()
    if not is_over:
        raise ProcessFailed(f"Volumes are still held: {progress.left}; is the provisioner running?")
    click.echo("nothing is held")


class _Progress:
    """Prints the held volumes whenever they change."""

    left: RemainingHolds = RemainingHolds()

    def __call__(self, left: RemainingHolds) -> None:
        self.left = left
        click.echo(str(left))


async def _ended(draining: HoldDrain, progress: _Progress, *, timeout: float) -> bool:
    """Whether nothing is held before the timeout or a signal."""
    work = asyncio.ensure_future(draining.drain(progress))
    stopped = asyncio.ensure_future(stop_event().wait())
    try:
        await asyncio.wait((work, stopped), timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        if work.done():
            work.result()
            return True
        return False
    finally:
        work.cancel()
        stopped.cancel()
