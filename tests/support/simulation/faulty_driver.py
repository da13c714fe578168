"""A CSI driver with injected faults.

`DriverProcess` is the driver itself: it survives crashes of its callers, completes calls after their deadline, and
returns ABORTED for an operation that is pending, as CSI requires. `FaultyDriver` wraps it for one process instance.
Calls with side effects count as writes of the caller, so crashes occur between a volume and its PersistentVolume.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NoReturn, TypeVar

import msgspec

from mooring.clock import Clock
from mooring.csi.contract import (
    NOT_FINAL,
    Capacity,
    Code,
    CreateVolume,
    Driver,
    DriverError,
    DriverVolume,
    NodeInfo,
    Topology,
    VolumeCapability,
)
from mooring.provisioner.provision.request import VOLUME_NAME
from support.simulation.faults import BadRpc, DriverFault
from support.simulation.history import History
from support.simulation.injector import InstanceConnection

T = TypeVar("T")
Strings = Mapping[str, str]
_NOTHING: Final[Strings] = MappingProxyType({})

#: Calls with side effects.
_WRITES: Final = frozenset(
    {
        "create_volume",
        "delete_volume",
        "controller_publish",
        "controller_unpublish",
        "stage",
        "unstage",
        "publish",
        "unpublish",
    }
)


#: Noted for calls with side effects whose caller crashed before the response.
CALLER_GONE: Final = "the caller crashed before the response"


class DriverProcess:
    """A driver and its pending operations, by volume name or id."""

    def __init__(self, name: str, driver: Driver, history: History, clock: Clock) -> None:
        self.driver = driver
        self._name = name
        self._history = history
        self._clock = clock
        self._busy: dict[str, asyncio.Task[None]] = {}

    def refuse_if_busy(self, about: str) -> None:
        if about in self._busy:
            raise DriverError(Code.ABORTED, f"an operation for {about} is pending")

    def do_later(self, what: str, about: str, call: Callable[[], Awaitable[object]], *, after: float) -> None:
        """Complete a call after the caller's deadline."""

        async def do() -> None:
            await self._clock.sleep(after)
            del self._busy[about]
            try:
                await call()
                self._history.note(self._name, f"{what}: completed late")
            except DriverError as refusal:
                self._history.note(self._name, f"{what}: failed late: {refusal}")

        self._busy[about] = asyncio.create_task(do(), name=f"{self._name} {what}")


class FaultyDriver:
    def __init__(self, process: DriverProcess, connection: InstanceConnection) -> None:
        self._process = process
        self._driver = process.driver
        self._connection = connection

    async def name(self) -> str:
        return await self._call("name", "", self._driver.name)

    async def vendor_version(self) -> str:
        return await self._call("vendor_version", "", self._driver.vendor_version)

    async def plugin_capabilities(self) -> frozenset[str]:
        return await self._call("plugin_capabilities", "", self._driver.plugin_capabilities)

    async def probe(self) -> bool:
        return await self._call("probe", "", self._driver.probe)

    async def controller_capabilities(self) -> frozenset[str]:
        return await self._call("controller_capabilities", "", self._driver.controller_capabilities)

    async def create_volume(self, request: CreateVolume, *, secrets: Strings) -> DriverVolume:
        return await self._call(
            "create_volume",
            request.name,
            lambda: self._driver.create_volume(request, secrets=secrets),
            wrong=lambda made: msgspec.structs.replace(made, capacity_bytes=max(request.required_bytes - 1, 1)),
        )

    async def delete_volume(self, volume_id: str, *, secrets: Strings) -> None:
        await self._call("delete_volume", volume_id, lambda: self._driver.delete_volume(volume_id, secrets=secrets))

    async def controller_publish(
        self,
        volume_id: str,
        *,
        node_id: str,
        capability: VolumeCapability,
        read_only: bool = False,
        context: Strings = _NOTHING,
        secrets: Strings = _NOTHING,
    ) -> Strings:
        return await self._call(
            "controller_publish",
            volume_id,
            lambda: self._driver.controller_publish(
                volume_id,
                node_id=node_id,
                capability=capability,
                read_only=read_only,
                context=context,
                secrets=secrets,
            ),
        )

    async def controller_unpublish(self, volume_id: str, *, node_id: str, secrets: Strings = _NOTHING) -> None:
        await self._call(
            "controller_unpublish",
            volume_id,
            lambda: self._driver.controller_unpublish(volume_id, node_id=node_id, secrets=secrets),
        )

    async def validate_capabilities(
        self,
        volume_id: str,
        *,
        capabilities: Sequence[VolumeCapability],
        context: Strings = _NOTHING,
        parameters: Strings = _NOTHING,
        secrets: Strings = _NOTHING,
    ) -> str | None:
        return await self._call(
            "validate_capabilities",
            volume_id,
            lambda: self._driver.validate_capabilities(
                volume_id, capabilities=capabilities, context=context, parameters=parameters, secrets=secrets
            ),
        )

    async def list_volumes(self) -> Sequence[DriverVolume]:
        return await self._call("list_volumes", "", self._driver.list_volumes)

    async def get_volume(self, volume_id: str) -> DriverVolume:
        return await self._call("get_volume", volume_id, lambda: self._driver.get_volume(volume_id))

    async def get_capacity(
        self, *, capabilities: Sequence[VolumeCapability], parameters: Strings, accessible_from: Topology | None
    ) -> Capacity:
        return await self._call(
            "get_capacity",
            "",
            lambda: self._driver.get_capacity(
                capabilities=capabilities, parameters=parameters, accessible_from=accessible_from
            ),
            wrong=lambda capacity: msgspec.structs.replace(capacity, available_bytes=-1),
        )

    async def node_capabilities(self) -> frozenset[str]:
        return await self._call("node_capabilities", "", self._driver.node_capabilities)

    async def info(self) -> NodeInfo:
        return await self._call("info", "", self._driver.info)

    async def stage(
        self,
        volume_id: str,
        *,
        staging_target: str,
        capability: VolumeCapability,
        context: Strings = _NOTHING,
        publish_context: Strings = _NOTHING,
        secrets: Strings = _NOTHING,
    ) -> None:
        await self._call(
            "stage",
            volume_id,
            lambda: self._driver.stage(
                volume_id,
                staging_target=staging_target,
                capability=capability,
                context=context,
                publish_context=publish_context,
                secrets=secrets,
            ),
        )

    async def unstage(self, volume_id: str, *, staging_target: str) -> None:
        await self._call("unstage", volume_id, lambda: self._driver.unstage(volume_id, staging_target=staging_target))

    async def publish(
        self,
        volume_id: str,
        *,
        target: str,
        capability: VolumeCapability,
        read_only: bool,
        staging_target: str = "",
        context: Strings = _NOTHING,
        publish_context: Strings = _NOTHING,
        secrets: Strings = _NOTHING,
    ) -> None:
        await self._call(
            "publish",
            volume_id,
            lambda: self._driver.publish(
                volume_id,
                target=target,
                capability=capability,
                read_only=read_only,
                staging_target=staging_target,
                context=context,
                publish_context=publish_context,
                secrets=secrets,
            ),
        )

    async def unpublish(self, volume_id: str, *, target: str) -> None:
        await self._call("unpublish", volume_id, lambda: self._driver.unpublish(volume_id, target=target))

    async def _call(
        self, rpc: str, about: str, call: Callable[[], Awaitable[T]], *, wrong: Callable[[T], T] | None = None
    ) -> T:
        what = f"{rpc} {about}".rstrip()
        fault = self._connection.faults.next_rpc(rpc)
        await self._connection.transmit()
        if fault is not None:
            self._connection.note(f"{what}: {fault.effect.value}")
            await self._before(fault, what, about, call)
        if rpc not in _WRITES:
            return await self._respond(fault, call, wrong)
        self._process.refuse_if_busy(about)
        try:
            return await self._respond(fault, call, wrong, did=what)
        except asyncio.CancelledError:
            self._connection.note(f"{what}: {CALLER_GONE}")
            raise

    async def _respond(
        self, fault: BadRpc | None, call: Callable[[], Awaitable[T]], wrong: Callable[[T], T] | None, did: str = ""
    ) -> T:
        """Return the driver's response; `did` describes a side effect that survives the caller."""
        response = await call()
        if did:
            self._connection.took_effect(did)
        if fault is not None:
            await self._after(fault)
            if fault.effect is DriverFault.WRONG and wrong is not None:
                response = wrong(response)
        await self._connection.transmit()
        return response

    async def _before(self, fault: BadRpc, what: str, about: str, call: Callable[[], Awaitable[object]]) -> None:
        match fault.effect:
            case DriverFault.SLOW_CALL:
                await self._connection.delay(fault.seconds)
            case DriverFault.REFUSED:
                contradicts = fault.rpc == "create_volume" and fault.code not in NOT_FINAL and await self._has(about)
                raise DriverError(Code.UNAVAILABLE if contradicts else fault.code, fault.effect.value)
            case DriverFault.HUNG:
                await self._miss_deadline(fault)
            case DriverFault.DONE_LATE:
                self._process.refuse_if_busy(about)
                self._process.do_later(what, about, call, after=2 * fault.seconds)
                await self._miss_deadline(fault)
            case _:
                return

    async def _has(self, name: str) -> bool:
        """Whether the driver has a volume of this name: then no CreateVolume may fail with a final error."""
        return any(volume.context.get(VOLUME_NAME) == name for volume in await self._driver.list_volumes())

    async def _miss_deadline(self, fault: BadRpc) -> NoReturn:
        await self._connection.delay(fault.seconds)
        raise DriverError(Code.DEADLINE_EXCEEDED, fault.effect.value)

    async def _after(self, fault: BadRpc) -> None:
        if fault.effect is DriverFault.SLOW_ANSWER:
            await self._connection.delay(fault.seconds)
        elif fault.effect is DriverFault.LOST_ANSWER:
            raise DriverError(fault.code, fault.effect.value)
        elif fault.effect is DriverFault.GARBLED_ANSWER:
            raise DriverError(Code.UNAVAILABLE, fault.effect.value)


_contract: type[Driver] = FaultyDriver
