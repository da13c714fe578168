"""Getting to know a driver: waits until it is ready, then asks once what it is and what it can do."""

import random

import structlog
from structlog.typing import FilteringBoundLogger

from mooring.clock import Clock
from mooring.csi.contract import Code, Driver, DriverError
from mooring.provisioner.settings import DriverFacts

log: FilteringBoundLogger = structlog.get_logger(__name__)

#: Between two questions whether it is ready, as external-provisioner.
PAUSE = 1.0
#: As external-provisioner draws them, for its identity.
LOTS = 10_000


async def introduce(driver: Driver, *, clock: Clock, rng: random.Random, node: str = "") -> DriverFacts:
    """What the driver says of itself; `node` is given where the provisioner works for that one alone.

    Raises DriverError for everything but a driver that is not ready yet.
    """
    while not await _ready(driver):
        log.info("driver is not ready yet")
        await clock.sleep(PAUSE)
    name = await driver.name()
    identity = f"{int(clock.now() * 1000)}-{rng.randrange(LOTS)}-{name}"
    return DriverFacts(
        name=name,
        identity=f"{identity}-{node}" if node else identity,
        plugin_capabilities=await driver.plugin_capabilities(),
        controller_capabilities=await driver.controller_capabilities(),
        node=await driver.info() if node else None,
    )


async def _ready(driver: Driver) -> bool:
    try:
        return await driver.probe()
    except DriverError as error:
        if error.code is Code.DEADLINE_EXCEEDED:
            return False
        raise
