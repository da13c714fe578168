"""What `mooring coordinator --drain` does: settles everything that is held, says how far it is, and ends."""

import asyncio
import random
import signal

import click
import msgspec

from mooring.api.errors import ApiError
from mooring.cli.component_process import ProcessFailed, ProcessSettings, Surroundings
from mooring.client.contract import Unreachable
from mooring.client.http import HttpClient
from mooring.clock import SystemClock
from mooring.coordinator.component import Coordinator
from mooring.coordinator.draining import AnotherCoordinator, Draining, Left
from mooring.coordinator.settings import Settings
from mooring.volumes.holds.verdicts import Patience


async def drain(process: ProcessSettings, settings: Settings, *, timeout: float) -> None:
    """Raises ProcessFailed, with what is left, where it does not come to an end in time or is told to stop."""
    clock, rng = SystemClock(), random.SystemRandom()
    client = HttpClient(process.access, component=process.name, clock=clock)
    surroundings = Surroundings(process, client, clock, rng)
    ending = msgspec.structs.replace(settings, patience=Patience(ending=True), alone=False)
    coordinator = Coordinator(surroundings.context(), ending, registry=surroundings.metrics.registry)
    draining = Draining(client, clock, surroundings.informers, hold_namespace=settings.hold_namespace)
    told = _Told()
    try:
        await draining.alone()
        async with asyncio.TaskGroup() as group:
            around = group.create_task(surroundings.run(), name="surroundings")
            await surroundings.informers.wait_synced()
            deciding = group.create_task(coordinator.run(), name=process.name)
            is_over = await _ended(draining, told, timeout=timeout)
            for task in (deciding, around):
                task.cancel()
    except AnotherCoordinator as error:
        raise ProcessFailed(str(error)) from error
    except (ApiError, Unreachable) as error:
        raise ProcessFailed(f"Cannot use the API server: {error}.") from error
    finally:
        await client.close()
    if not is_over:
        raise ProcessFailed(f"Not everything is settled: {told.left}; is the provisioner running?")
    click.echo("nothing is held")


class _Told:
    """Says what is left whenever that changes, and remembers it."""

    left: Left = Left()

    def __call__(self, left: Left) -> None:
        self.left = left
        click.echo(str(left))


async def _ended(draining: Draining, told: _Told, *, timeout: float) -> bool:
    """Whether all was settled before the time was over or a signal came."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for wanted in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(wanted, stop.set)
    work = asyncio.ensure_future(draining.drain(told))
    stopped = asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait((work, stopped), timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        if work.done():
            work.result()
            return True
        return False
    finally:
        work.cancel()
        stopped.cancel()
