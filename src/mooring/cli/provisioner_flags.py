"""The flags of `mooring provisioner`, spelled and defaulted as external-provisioner's, and what they mean together.

Flags of external-provisioner for what Mooring does not do (snapshots, clones) are not taken: a deployment that relies
on them should hear so at once. Limits on requests are taken with a note that there are none.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypedDict, TypeVar

import click

from mooring.cli.process_options import GoDuration, Misconfigured, ProcessFlags

if TYPE_CHECKING:
    from mooring.provisioner.publisher import CapacitySettings
    from mooring.provisioner.settings import NodeDeployment, Settings

Command = TypeVar("Command", bound=Callable[..., Any])

#: The one gate of external-provisioner that means something here.
TOPOLOGY_GATE: Final = "Topology"


class ProvisionerFlags(TypedDict):
    """What click hands over for `provisioner_options`."""

    csi_address: str
    timeout: float
    retry_interval_start: float
    retry_interval_max: float
    worker_threads: int
    volume_name_prefix: str
    volume_name_uuid_length: int
    default_fstype: str
    extra_create_metadata: bool
    strict_topology: bool
    immediate_topology: bool
    controller_publish_readonly: bool
    enable_capacity: bool
    capacity_ownerref_level: int
    capacity_poll_interval: float
    capacity_for_immediate_binding: bool
    capacity_threads: int
    node_deployment: bool
    node_deployment_immediate_binding: bool
    node_deployment_base_delay: float
    node_deployment_max_delay: float
    enable_rollback: bool
    leader_election: bool
    leader_election_namespace: str
    leader_election_lease_duration: float
    leader_election_renew_deadline: float
    leader_election_retry_period: float
    http_endpoint: str
    kubeconfig: str
    context: str
    feature_gates: str
    log_level: str
    v: int | None
    kube_api_qps: float | None
    kube_api_burst: int | None
    kube_api_capacity_qps: float | None
    kube_api_capacity_burst: int | None


#: Go's verbosity from which on every call is worth a line to whoever asked for it.
VERBOSE: Final = 5


def _flag(name: str, help_text: str, *, default: bool = False) -> Callable[[Command], Command]:
    """As Go's boolean flags: `--x`, `--x=true`, `--x=false`."""
    return click.option(
        name,
        type=bool,
        is_flag=False,
        flag_value=True,
        default=default,
        metavar="[true|false]",
        help=f"{help_text}  [default: {str(default).lower()}]",
    )


def _duration(name: str, default: str, help_text: str) -> Callable[[Command], Command]:
    return click.option(name, type=GoDuration(), default=default, show_default=True, help=help_text)


_OPTIONS: Final = (
    click.option(
        "--csi-address",
        default="/run/csi/socket",
        show_default=True,
        metavar="SOCKET",
        help="Where the driver listens.",
    ),
    _duration("--timeout", "10s", "How long to wait for the driver to answer a call."),
    _duration("--retry-interval-start", "1s", "Pause after a first failure; it doubles with every further one."),
    _duration("--retry-interval-max", "5m", "The longest pause."),
    click.option(
        "--worker-threads", type=click.IntRange(1), default=100, show_default=True, help="How many volumes at once."
    ),
    click.option("--volume-name-prefix", default="pvc", show_default=True, help="How volumes' names begin."),
    click.option(
        "--volume-name-uuid-length",
        type=click.IntRange(-1),
        default=-1,
        show_default=True,
        help="How much of the claim's uid follows; -1 is all of it.",
    ),
    click.option("--default-fstype", default="", help="File system of volumes whose class names none."),
    _flag("--extra-create-metadata", "Tell the driver the names of claim and volume."),
    _flag("--strict-topology", "Ask for the selected node's place alone."),
    _flag("--immediate-topology", "Tell the driver all places for claims without a node.", default=True),
    _flag("--controller-publish-readonly", "Mark volumes that many may only read."),
    _flag("--enable-capacity", "Publish CSIStorageCapacity objects."),
    click.option(
        "--capacity-ownerref-level",
        type=click.IntRange(-1),
        default=1,
        show_default=True,
        help="Owner of CSIStorageCapacity objects: -1 none, 0 this pod, 1 its controller, 2 the controller's owner.",
    ),
    _duration(
        "--capacity-poll-interval", "1m", "How often the driver is asked for its capacity when nothing has changed."
    ),
    _flag(
        "--capacity-for-immediate-binding",
        "Publish CSIStorageCapacity objects for classes with immediate binding, too.",
    ),
    click.option(
        "--capacity-threads",
        type=click.IntRange(1),
        default=1,
        show_default=True,
        help="How many GetCapacity calls may run at once.",
    ),
    _flag("--node-deployment", "Work for the node in $NODE_NAME alone."),
    _flag(
        "--node-deployment-immediate-binding",
        "Offer this node to claims of classes with immediate binding.",
        default=True,
    ),
    _duration(
        "--node-deployment-base-delay", "20s", "How long a node waits before it offers itself to a claim, at first."
    ),
    _duration(
        "--node-deployment-max-delay", "60s", "How long a node waits before it offers itself to a claim, at most."
    ),
    _flag("--enable-rollback", "Hold the volumes of a pod until it has them all (`mooring docs rollback`)."),
    _flag("--leader-election", "Let one of several instances act."),
    click.option("--leader-election-namespace", default="", help="Namespace of the Lease.  [default: this pod's own]"),
    _duration("--leader-election-lease-duration", "15s", "How long others leave a lease alone that is not renewed."),
    _duration("--leader-election-renew-deadline", "10s", "How long the leader acts without renewing."),
    _duration("--leader-election-retry-period", "5s", "Pause between two tries."),
    click.option(
        "--http-endpoint", default="", metavar="HOST:PORT", help="Where /metrics and probes are answered; off if empty."
    ),
    click.option("--kubeconfig", default="", metavar="FILE", help="How to reach the cluster."),
    click.option("--context", default="", metavar="NAME", help="Context of the kubeconfig to use."),
    click.option("--feature-gates", default="", metavar="NAME=true|false,...", help="Topology, and Mooring's own."),
    click.option(
        "--log-level",
        type=click.Choice(["debug", "info", "warning", "error"]),
        default="info",
        show_default=True,
        help="What to log to standard error, as JSON lines; info shows every call of the driver and its answer.",
    ),
    click.option("-v", "--v", type=int, help="Go's spelling of --log-level: from 5 on it is debug."),
    click.option("--kube-api-qps", type=float, hidden=True),
    click.option("--kube-api-burst", type=int, hidden=True),
    click.option("--kube-api-capacity-qps", type=float, hidden=True),
    click.option("--kube-api-capacity-burst", type=int, hidden=True),
)


def provisioner_options(command: Command) -> Command:
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def process_flags(flags: ProvisionerFlags, *, lease: str, namespace: str, gates: str) -> ProcessFlags:
    """The part that every component's process has."""
    host, port = _address(flags["http_endpoint"])
    return ProcessFlags(
        kubeconfig=flags["kubeconfig"],
        context=flags["context"],
        leader_elect=flags["leader_election"],
        leader_elect_lease_duration=flags["leader_election_lease_duration"],
        leader_elect_renew_deadline=flags["leader_election_renew_deadline"],
        leader_elect_retry_period=flags["leader_election_retry_period"],
        leader_elect_resource_name=lease,
        leader_elect_resource_namespace=flags["leader_election_namespace"] or namespace,
        feature_gates=gates,
        bind_address=host,
        http_port=port,
        no_http=not flags["http_endpoint"],
        log_level=log_level(flags),
    )


def settings(flags: ProvisionerFlags, *, namespace: str, node: str) -> "Settings":
    from mooring.provisioner.settings import Settings

    return Settings(
        strict_topology=flags["strict_topology"],
        immediate_topology=flags["immediate_topology"],
        volume_name_prefix=flags["volume_name_prefix"],
        volume_name_uuid_length=flags["volume_name_uuid_length"],
        default_fstype=flags["default_fstype"],
        extra_create_metadata=flags["extra_create_metadata"],
        controller_publish_readonly=flags["controller_publish_readonly"],
        retry_interval_start=flags["retry_interval_start"],
        retry_interval_max=flags["retry_interval_max"],
        worker_threads=flags["worker_threads"],
        namespace=namespace,
        node_deployment=_deployment(flags, node) if flags["node_deployment"] else None,
        rollback=flags["enable_rollback"],
    )


def capacity_settings(flags: ProvisionerFlags, *, namespace: str) -> "CapacitySettings | None":
    from mooring.provisioner.publisher import CapacitySettings

    if not flags["enable_capacity"]:
        return None
    return CapacitySettings(
        namespace=namespace,
        poll_interval=flags["capacity_poll_interval"],
        for_immediate_binding=flags["capacity_for_immediate_binding"],
        threads=flags["capacity_threads"],
        retry_interval_start=flags["retry_interval_start"],
        retry_interval_max=flags["retry_interval_max"],
    )


def notes(flags: ProvisionerFlags) -> list[str]:
    """What whoever gave these flags may expect and will not get."""
    limits = {
        "--kube-api-qps": flags["kube_api_qps"],
        "--kube-api-burst": flags["kube_api_burst"],
        "--kube-api-capacity-qps": flags["kube_api_capacity_qps"],
        "--kube-api-capacity-burst": flags["kube_api_capacity_burst"],
    }
    given = [name for name, value in limits.items() if value is not None]
    return [f"note: {', '.join(given)}: requests to the API server are not limited here"] if given else []


def log_level(flags: ProvisionerFlags) -> str:
    verbosity = flags["v"]
    return flags["log_level"] if verbosity is None or verbosity < VERBOSE else "debug"


def check(flags: ProvisionerFlags, environment: Mapping[str, str]) -> None:
    """What the environment must say because of the flags. Raises Misconfigured."""
    if not flags["volume_name_prefix"]:
        raise Misconfigured("--volume-name-prefix must not be empty.")
    if flags["node_deployment"] and not environment.get("NODE_NAME"):
        raise Misconfigured("--node-deployment needs the environment variable NODE_NAME: the node to work for.")
    if flags["enable_capacity"] and not environment.get("NAMESPACE"):
        raise Misconfigured("--enable-capacity needs the environment variable NAMESPACE: where objects shall lie.")
    if flags["enable_capacity"] and flags["capacity_ownerref_level"] >= 0 and not environment.get("POD_NAME"):
        raise Misconfigured(
            "--enable-capacity needs the environment variable POD_NAME to find the objects' owner; without one, say "
            "--capacity-ownerref-level=-1."
        )


def gates_of(text: str) -> tuple[bool, str]:
    """Whether topology is used, and what is left of the gates for Mooring's own table. Raises Misconfigured."""
    topology, rest = True, []
    for part in filter(None, (each.strip() for each in text.split(","))):
        name, _, value = part.partition("=")
        if name != TOPOLOGY_GATE:
            rest.append(part)
        elif value.lower() not in ("true", "false"):
            raise Misconfigured(f"--feature-gates: write {TOPOLOGY_GATE}=true or {TOPOLOGY_GATE}=false.")
        else:
            topology = value.lower() == "true"
    return topology, ",".join(rest)


def _deployment(flags: ProvisionerFlags, node: str) -> "NodeDeployment":
    from mooring.provisioner.settings import NodeDeployment

    return NodeDeployment(
        node,
        immediate_binding=flags["node_deployment_immediate_binding"],
        base_delay=flags["node_deployment_base_delay"],
        max_delay=flags["node_deployment_max_delay"],
    )


def _address(endpoint: str) -> tuple[str, int]:
    """`:8080` is every address of this machine, as Go has it."""
    if not endpoint:
        return "", 0
    host, colon, port = endpoint.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65535:
        raise Misconfigured(f"--http-endpoint: {endpoint!r} is not HOST:PORT.")
    return host.strip("[]") or "0.0.0.0", int(port)
