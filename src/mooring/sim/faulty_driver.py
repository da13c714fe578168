"""A CSI driver as one incarnation reaches it: at the end of a line that can fail, and not always in good health.

`DriverProcess` is the driver itself, which lives on when its callers crash and finishes what nobody waits for any more;
meanwhile it answers ABORTED to whoever asks for the same, as CSI has it. `FaultyDriver` stands around it, one for each
incarnation that calls it, and lets calls go wrong as the instance's `Luck` has it. Whatever a call makes or destroys
counts as a write of its caller, so that crashes fall between a volume and the object that would have told of it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NoReturn, TypeVar

import msgspec

from mooring.clock import Clock
from mooring.csi.contract import (
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
from mooring.sim.faults import BadRpc, DriverTrouble
from mooring.sim.history import History
from mooring.sim.lifeline import Lifeline

T = TypeVar("T")
Strings = Mapping[str, str]
_NOTHING: Final[Strings] = MappingProxyType({})

#: What leaves a trace that outlasts the caller.
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


#: Noted of calls that did something, or may have, whose caller died before the answer came.
UNHEARD: Final = "the caller did not live to hear of it"


class DriverProcess:
    """A driver, and what it is still busy with: names of volumes to be created, ids of those there are."""

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
        """For a caller who has stopped waiting."""

        async def do() -> None:
            await self._clock.sleep(after)
            del self._busy[about]
            try:
                await call()
                self._history.note(self._name, f"{what}: done after all")
            except DriverError as refusal:
                self._history.note(self._name, f"{what}: not done after all: {refusal}")

        self._busy[about] = asyncio.create_task(do(), name=f"{self._name} {what}")


class FaultyDriver:
    def __init__(self, process: DriverProcess, line: Lifeline) -> None:
        self._process = process
        self._driver = process.driver
        self._line = line

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
        trouble = self._line.luck.next_rpc(rpc)
        await self._line.travel()
        if trouble is not None:
            self._line.note(f"{what}: {trouble.trouble.value}")
            await self._before(trouble, what, about, call)
        if rpc not in _WRITES:
            return await self._answered(trouble, call, wrong)
        self._process.refuse_if_busy(about)
        try:
            return await self._answered(trouble, call, wrong, did=what)
        except asyncio.CancelledError:
            self._line.note(f"{what}: {UNHEARD}")
            raise

    async def _answered(
        self, trouble: BadRpc | None, call: Callable[[], Awaitable[T]], wrong: Callable[[T], T] | None, did: str = ""
    ) -> T:
        """The driver's answer on its way back; `did` is what outlasts a caller who does not hear of it."""
        answer = await call()
        if did:
            self._line.outlive(did)
        if trouble is not None:
            await self._after(trouble)
            if trouble.trouble is DriverTrouble.WRONG and wrong is not None:
                answer = wrong(answer)
        await self._line.travel()
        return answer

    async def _before(self, trouble: BadRpc, what: str, about: str, call: Callable[[], Awaitable[object]]) -> None:
        match trouble.trouble:
            case DriverTrouble.SLOW_CALL:
                await self._line.delay(trouble.seconds)
            case DriverTrouble.REFUSED:
                raise DriverError(trouble.code, trouble.trouble.value)
            case DriverTrouble.HUNG:
                await self._miss_deadline(trouble)
            case DriverTrouble.DONE_LATE:
                self._process.refuse_if_busy(about)
                self._process.do_later(what, about, call, after=2 * trouble.seconds)
                await self._miss_deadline(trouble)
            case _:
                return

    async def _miss_deadline(self, trouble: BadRpc) -> NoReturn:
        await self._line.delay(trouble.seconds)
        raise DriverError(Code.DEADLINE_EXCEEDED, trouble.trouble.value)

    async def _after(self, trouble: BadRpc) -> None:
        if trouble.trouble is DriverTrouble.SLOW_ANSWER:
            await self._line.delay(trouble.seconds)
        elif trouble.trouble is DriverTrouble.LOST_ANSWER:
            raise DriverError(trouble.code, trouble.trouble.value)
        elif trouble.trouble is DriverTrouble.GARBLED_ANSWER:
            raise DriverError(Code.UNAVAILABLE, trouble.trouble.value)


_contract: type[Driver] = FaultyDriver
