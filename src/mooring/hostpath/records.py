"""What the driver remembers of its volumes, and nothing it could find out again.

Frozen values; a change is a new record. `ledger` holds them, `placement` and `usage` decide about them.
"""

import enum
from collections.abc import Mapping
from typing import Final

import msgspec

from mooring.csi.contract import AccessMode, DriverVolume, Topology, VolumeCapability
from mooring.hostpath.layout import Kind

#: Where lists show a volume's name, which CSI leaves out of them: under the key by which provisioners pass it on.
NAME_KEY: Final = "csi.storage.k8s.io/pv/name"


class Phase(enum.StrEnum):
    """A record is written before the volume is made and dropped after it is removed."""

    CREATING = "creating"
    READY = "ready"
    DELETING = "deleting"


class Attachment(msgspec.Struct, frozen=True):
    node: str
    capability: VolumeCapability
    read_only: bool


class Staging(msgspec.Struct, frozen=True):
    node: str
    path: str
    capability: VolumeCapability


class Publication(msgspec.Struct, frozen=True):
    node: str
    target: str
    capability: VolumeCapability
    read_only: bool


class Volume(msgspec.Struct, frozen=True):
    volume_id: str
    #: Empty for inline volumes, which nobody created by name.
    name: str
    size: int
    block: bool
    pool: str
    kind: Kind
    #: Of the site it lies at.
    segments: Mapping[str, str]
    #: What the class asked for, Kubernetes' own keys left out: a repeated request must ask for the same.
    wanted_pool: str | None = None
    wanted_kind: Kind | None = None
    phase: Phase = Phase.READY
    inline: bool = False
    attached: tuple[Attachment, ...] = ()
    staged: tuple[Staging, ...] = ()
    published: tuple[Publication, ...] = ()

    @property
    def cost(self) -> int:
        """Bytes it takes from its pool."""
        return self.size * self.kind.copies

    @property
    def single_writer(self) -> bool:
        return any(use.capability.mode is AccessMode.SINGLE_NODE_SINGLE_WRITER for use in self.published)

    def nodes(self) -> frozenset[str]:
        """Where it is in use in any way."""
        uses: tuple[Attachment | Staging | Publication, ...] = (*self.attached, *self.staged, *self.published)
        return frozenset(use.node for use in uses)

    def told(self) -> DriverVolume:
        """As the contract tells of it."""
        return DriverVolume(
            volume_id=self.volume_id,
            capacity_bytes=self.size,
            context={"pool": self.pool, "kind": self.kind.value} | ({NAME_KEY: self.name} if self.name else {}),
            accessible_from=(Topology(self.segments),) if self.segments else (),
            published_on=tuple(sorted({attachment.node for attachment in self.attached})),
        )
