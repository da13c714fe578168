"""A fake CSI driver in memory: records requests, has a capacity per node, and fails as a test configures it."""

import itertools
from collections.abc import Callable, Mapping, Sequence

from msgspec.structs import replace

from mooring.csi.contract import (
    Capacity,
    Code,
    ControllerCapability,
    CreateVolume,
    DriverError,
    DriverVolume,
    NodeInfo,
    PluginCapability,
    Topology,
    VolumeCapability,
)

DRIVER = "disks.example.com"
KEY = "disks.example.com/node"

ABLE = frozenset(
    {
        ControllerCapability.CREATE_DELETE_VOLUME,
        ControllerCapability.LIST_VOLUMES,
        ControllerCapability.GET_CAPACITY,
    }
)
WHOLE = frozenset({PluginCapability.CONTROLLER_SERVICE, PluginCapability.VOLUME_ACCESSIBILITY_CONSTRAINTS})


def full(where: str = "") -> DriverError:
    return DriverError(Code.RESOURCE_EXHAUSTED, f"no capacity left {where}".rstrip())


class FakeCsiDriver:
    """`capacity` is in bytes per node; `errors` are raised by the next calls of that name, None for success."""

    def __init__(self, capacity: Mapping[str, int] | None = None, *, node: str = "") -> None:
        self.capacity = dict(capacity or {})
        self.node = node
        self.able = ABLE
        self.whole = WHOLE
        self.volumes: dict[str, DriverVolume] = {}
        self.requests: list[CreateVolume] = []
        self.secrets: list[Mapping[str, str]] = []
        self.deleted: list[str] = []
        self.asked: list[tuple[Mapping[str, str], Mapping[str, str] | None]] = []
        #: How many times its size a volume with these parameters takes.
        self.share: Callable[[Mapping[str, str]], int] = lambda _: 1
        self.errors: dict[str, list[DriverError | None]] = {}
        #: Errors after the call took effect: the response is lost.
        self.lost: dict[str, list[DriverError | None]] = {}
        self.context: dict[str, str] = {}
        self.made = 0
        self._ids = itertools.count(1)

    def _raise_next(self, table: dict[str, list[DriverError | None]], call: str) -> None:
        waiting = table.get(call, [])
        error = waiting.pop(0) if waiting else None
        if error is not None:
            raise error

    async def name(self) -> str:
        return DRIVER

    async def probe(self) -> bool:
        self._raise_next(self.errors, "probe")
        return True

    async def plugin_capabilities(self) -> frozenset[str]:
        return self.whole

    async def controller_capabilities(self) -> frozenset[str]:
        return self.able

    async def info(self) -> NodeInfo:
        return NodeInfo(node_id=self.node, accessible_from=Topology({KEY: self.node}))

    async def create_volume(self, request: CreateVolume, *, secrets: Mapping[str, str]) -> DriverVolume:
        self.requests.append(request)
        self.secrets.append(secrets)
        self._raise_next(self.errors, "create")
        if request.name not in self.volumes:
            self.volumes[request.name] = self._place(request)
            self.made += 1
        self._raise_next(self.lost, "create")
        return self.volumes[request.name]

    def _place(self, request: CreateVolume) -> DriverVolume:
        requirement = request.accessibility
        nodes = (
            [each.segments[KEY] for each in requirement.preferred] if requirement is not None else sorted(self.capacity)
        )
        for node in nodes:
            if self.free(node) >= request.required_bytes:
                number = f"volume-{next(self._ids)}"
                return DriverVolume(number, request.required_bytes, self.context, (Topology({KEY: node}),))
        raise full(f"on {', '.join(nodes)}")

    def free(self, node: str) -> int:
        used = sum(
            each.capacity_bytes for each in self.volumes.values() if each.accessible_from[0].segments[KEY] == node
        )
        return self.capacity.get(node, 0) - used

    async def delete_volume(self, volume_id: str, *, secrets: Mapping[str, str]) -> None:
        self.deleted.append(volume_id)
        self.secrets.append(secrets)
        self._raise_next(self.errors, "delete")
        self.volumes = {name: each for name, each in self.volumes.items() if each.volume_id != volume_id}
        self._raise_next(self.lost, "delete")

    async def list_volumes(self) -> Sequence[DriverVolume]:
        """With the names, which the orphan collector needs."""
        return [
            replace(each, context={**each.context, "csi.storage.k8s.io/pv/name": name})
            for name, each in self.volumes.items()
        ]

    async def get_capacity(
        self,
        *,
        capabilities: Sequence[VolumeCapability],
        parameters: Mapping[str, str],
        accessible_from: Topology | None,
    ) -> Capacity:
        place = accessible_from.segments if accessible_from is not None else None
        self.asked.append((parameters, place))
        self._raise_next(self.errors, "capacity")
        free = sum(self.free(node) for node in self.capacity) if not place else self.free(place[KEY])
        left = max(free, 0) // self.share(parameters)
        return Capacity(available_bytes=left, maximum_volume_bytes=left)
