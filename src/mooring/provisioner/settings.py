"""What the provisioner is told at its start, and what its driver says of itself. Plain values.

Names and defaults of settings are those of external-provisioner's flags.
"""

from dataclasses import dataclass, field

from mooring.csi.contract import NodeInfo, PluginCapability


@dataclass(frozen=True)
class NodeDeployment:
    """One instance per node, each for its own volumes."""

    node: str
    #: Whether claims of immediate classes, for which nobody has chosen a node, are taken by whoever comes first.
    immediate_binding: bool = True
    #: How long an instance waits before it offers itself, so that not all offer at once. Seconds.
    base_delay: float = 20.0
    max_delay: float = 60.0


@dataclass(frozen=True)
class Settings:
    strict_topology: bool = False
    immediate_topology: bool = True
    volume_name_prefix: str = "pvc"
    #: How much of the claim's uid a volume's name carries; -1 is all of it, dashes included.
    volume_name_uuid_length: int = -1
    default_fstype: str = ""
    extra_create_metadata: bool = False
    controller_publish_readonly: bool = False
    #: Seconds.
    retry_interval_start: float = 1.0
    retry_interval_max: float = 300.0
    worker_threads: int = 100
    #: Where records of unfinished attempts lie; ordinary users must not write there.
    namespace: str = "default"
    node_deployment: NodeDeployment | None = None
    #: Whether volumes of pods that need several are held until all are there, and rolled back if that fails. Asks of
    #: the driver that it never uses a volume id twice.
    rollback: bool = False


@dataclass(frozen=True)
class DriverFacts:
    """What a driver says of itself, asked once at the start."""

    name: str
    #: New at each start; volumes carry it so that one can tell who made them.
    identity: str
    plugin_capabilities: frozenset[str] = field(default_factory=frozenset)
    controller_capabilities: frozenset[str] = field(default_factory=frozenset)
    #: Only asked where the provisioner works for one node.
    node: NodeInfo | None = None

    @property
    def knows_topology(self) -> bool:
        return PluginCapability.VOLUME_ACCESSIBILITY_CONSTRAINTS in self.plugin_capabilities

    @property
    def segments(self) -> dict[str, str]:
        """Where the driver's own node is."""
        here = self.node.accessible_from if self.node is not None else None
        return dict(here.segments) if here is not None else {}
