"""A CSI driver that records all volumes and reports callers that violate the specification."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from mooring.csi.contract import (
    Code,
    ControllerCapability,
    DriverError,
    NodeCapability,
    NodeInfo,
    Topology,
    VolumeCapability,
)

NAME = "csi.example.com"


@dataclass
class StrictState:
    """The state shared by all nodes of a driver."""

    attached: set[tuple[str, str]] = field(default_factory=set)
    staged: set[tuple[str, str]] = field(default_factory=set)
    #: (node, volume, target).
    published: set[tuple[str, str, str]] = field(default_factory=set)
    contexts: dict[str, Mapping[str, str]] = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)
    #: Calls that fail, by name, with the number of failures.
    failures: dict[str, int] = field(default_factory=dict)
    #: Calls that a real driver would reject with FAILED_PRECONDITION: bugs of the caller.
    broken: list[str] = field(default_factory=list)

    def call(self, name: str, volume: str) -> None:
        self.calls.append(f"{name} {volume}")
        if self.failures.get(name, 0) > 0:
            self.failures[name] -= 1
            raise DriverError(Code.INTERNAL, f"{name} does not work today")

    def require(self, holds: bool, rule: str) -> None:
        if not holds:
            self.broken.append(rule)
            raise DriverError(Code.FAILED_PRECONDITION, rule)


class StrictController:
    def __init__(self, books: StrictState) -> None:
        self.books = books

    async def controller_capabilities(self) -> frozenset[str]:
        return frozenset({ControllerCapability.PUBLISH_UNPUBLISH_VOLUME})

    async def controller_publish(
        self,
        volume_id: str,
        *,
        node_id: str,
        capability: VolumeCapability,
        read_only: bool = False,
        context: Mapping[str, str] = {},
        secrets: Mapping[str, str] = {},
    ) -> Mapping[str, str]:
        self.books.call("attach", volume_id)
        others = {node for volume, node in self.books.attached if volume == volume_id} - {node_id}
        self.books.require(not others, "attached to two nodes")
        self.books.attached.add((volume_id, node_id))
        return {"device": f"/dev/{volume_id}"}

    async def controller_unpublish(self, volume_id: str, *, node_id: str, secrets: Mapping[str, str] = {}) -> None:
        self.books.call("detach", volume_id)
        self.books.require((volume_id, node_id) not in self.books.staged, "detached while staged")
        self.books.attached.discard((volume_id, node_id))


class StrictNode:
    def __init__(self, books: StrictState, node: str, *, stages: bool = True, limit: int = 0) -> None:
        self.books = books
        self._node = node
        self._stages = stages
        self._limit = limit

    async def node_capabilities(self) -> frozenset[str]:
        return frozenset({NodeCapability.STAGE_UNSTAGE_VOLUME}) if self._stages else frozenset()

    async def info(self) -> NodeInfo:
        self.books.call("info", self._node)
        return NodeInfo(f"id-of-{self._node}", self._limit, Topology({"example.com/node": self._node}))

    async def stage(
        self,
        volume_id: str,
        *,
        staging_target: str,
        capability: VolumeCapability,
        context: Mapping[str, str] = {},
        publish_context: Mapping[str, str] = {},
        secrets: Mapping[str, str] = {},
    ) -> None:
        self.books.call("stage", volume_id)
        node = f"id-of-{self._node}"
        self.books.require((volume_id, node) in self.books.attached, "staged before it was attached")
        self.books.require("device" in publish_context, "staged without what attaching answered")
        self.books.staged.add((volume_id, node))

    async def unstage(self, volume_id: str, *, staging_target: str) -> None:
        self.books.call("unstage", volume_id)
        used = any((node, volume) == (self._node, volume_id) for node, volume, _ in self.books.published)
        self.books.require(not used, "unstaged while published")
        self.books.staged.discard((volume_id, f"id-of-{self._node}"))

    async def publish(
        self,
        volume_id: str,
        *,
        target: str,
        capability: VolumeCapability,
        read_only: bool,
        staging_target: str = "",
        context: Mapping[str, str] = {},
        publish_context: Mapping[str, str] = {},
        secrets: Mapping[str, str] = {},
    ) -> None:
        self.books.call("publish", volume_id)
        inline = "csi.storage.k8s.io/ephemeral" in context and context["csi.storage.k8s.io/ephemeral"] == "true"
        ready = inline or not self._stages or (volume_id, f"id-of-{self._node}") in self.books.staged
        self.books.require(ready, "published before it was staged")
        self.books.contexts[volume_id] = context
        self.books.published.add((self._node, volume_id, target))

    async def unpublish(self, volume_id: str, *, target: str) -> None:
        self.books.call("unpublish", volume_id)
        self.books.published.discard((self._node, volume_id, target))
