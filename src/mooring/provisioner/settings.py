"""Settings and driver facts of the provisioner, and what a failed provisioning attempt means. Pure.

Settings have the names and defaults of external-provisioner's flags.
"""

import enum
import re
from dataclasses import dataclass, field

from mooring.csi.contract import Code, DriverError, NodeInfo, PluginCapability
from mooring.provisioner import events


class ProvisioningState(enum.Enum):
    """external-provisioner's: whether the driver may have a volume without a PersistentVolume."""

    #: The driver does nothing any more: the request may change.
    FINISHED = "finished"
    #: The driver may still be creating the volume, or has created it: the same request must be repeated.
    IN_BACKGROUND = "in background"
    #: The driver was not called: the state of an earlier attempt still holds.
    NO_CHANGE = "no change"
    #: Finished, and the selected node cannot have the volume: the scheduler should select another node.
    RESCHEDULE = "reschedule"


class ProvisioningFailure(Exception):
    """Why an attempt failed; `text` is the text of the event."""

    def __init__(self, state: ProvisioningState, text: str, *, infeasible: bool = False) -> None:
        """`infeasible`: the driver rejected the request itself (INVALID_ARGUMENT), and retries are delayed."""
        super().__init__(text)
        self.state = state
        self.text = text
        self.infeasible = infeasible


def after_error(error: DriverError, *, topology: bool, selected_node: str) -> ProvisioningFailure:
    """What a failed CreateVolume means. `topology` is whether the driver supports topology."""
    text = rpc_text(error)
    if not error.final:
        return ProvisioningFailure(ProvisioningState.IN_BACKGROUND, text)
    if error.code is Code.RESOURCE_EXHAUSTED and topology and selected_node:
        return ProvisioningFailure(ProvisioningState.RESCHEDULE, text)
    return ProvisioningFailure(ProvisioningState.FINISHED, text, infeasible=error.code is Code.INVALID_ARGUMENT)


def rpc_text(error: DriverError) -> str:
    """The driver's error as gRPC's Go library prints it, which is how events of other provisioners show it."""
    return events.RPC_ERROR.format(code=spelled(error.code), reason=error.message)


def spelled(code: Code) -> str:
    """As gRPC's Go library spells codes: ResourceExhausted."""
    return "Canceled" if code is Code.CANCELLED else "".join(part.title() for part in code.name.split("_"))


def lease_name(driver: str) -> str:
    """Name of the driver's Lease as csi-lib-utils derives it: instances of both must compete for the same Lease."""
    name = re.sub(r"[^a-zA-Z0-9-]", "-", driver)
    return f"{name}X" if name.endswith("-") else name


@dataclass(frozen=True)
class NodeDeployment:
    """One instance per node, each for the volumes of its node."""

    node: str
    #: Whether the first instance to write its node into a claim of an immediate class without a node provisions it.
    immediate_binding: bool = True
    #: Seconds before an instance claims its node, so that instances do not all write at once.
    base_delay: float = 20.0
    max_delay: float = 60.0


@dataclass(frozen=True)
class ProvisionerSettings:
    strict_topology: bool = False
    immediate_topology: bool = True
    volume_name_prefix: str = "pvc"
    #: Characters of the claim's uid in the volume name; -1 is the whole uid, dashes included.
    volume_name_uuid_length: int = -1
    default_fstype: str = ""
    extra_create_metadata: bool = False
    controller_publish_readonly: bool = False
    #: Seconds.
    retry_interval_start: float = 1.0
    retry_interval_max: float = 300.0
    worker_threads: int = 100
    #: Of a call to the driver, in seconds.
    timeout: float = 10.0
    #: Of provisioning records; ordinary users must not be able to write there.
    namespace: str = "default"
    node_deployment: NodeDeployment | None = None
    #: Whether volumes of pods with several are held until all are available, and rolled back if one fails. Requires a
    #: driver that never uses a volume id twice.
    rollback: bool = False


@dataclass(frozen=True)
class DriverFacts:
    """Name and capabilities of a driver, read once at the start."""

    name: str
    #: New at each start; the volume attributes name the process that created the volume.
    identity: str
    plugin_capabilities: frozenset[str] = field(default_factory=frozenset)
    controller_capabilities: frozenset[str] = field(default_factory=frozenset)
    #: Only with a node deployment.
    node: NodeInfo | None = None

    @property
    def has_topology(self) -> bool:
        return PluginCapability.VOLUME_ACCESSIBILITY_CONSTRAINTS in self.plugin_capabilities

    @property
    def segments(self) -> dict[str, str]:
        """Topology of the driver's own node."""
        topology = self.node.accessible_from if self.node is not None else None
        return dict(topology.segments) if topology is not None else {}
