"""The flags of `mooring provisioner`, spelled and defaulted as external-provisioner's.

Flags for unsupported features (snapshots, clones) are rejected; request limits are accepted with a note.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final, TypedDict

import click

from mooring.cli import options
from mooring.cli.terminal import InvalidInput
from mooring.provisioner.capacity.publisher import CapacitySettings
from mooring.provisioner.capacity.segment_file import read_segments, read_templates
from mooring.provisioner.capacity.segments import SegmentSourceName
from mooring.provisioner.capacity.templates import BadCapacityFile
from mooring.provisioner.settings import NodeDeployment, ProvisionerSettings

#: The one gate of external-provisioner that means something here.
TOPOLOGY_GATE: Final = "Topology"


class ProvisionerFlags(TypedDict):
    """Values of `provisioner_options`."""

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
    capacity_segment_source: str
    capacity_segment_file: str
    capacity_template_file: str
    capacity_for_immediate_binding: bool
    capacity_threads: int
    capacity_watch_snapshots: bool
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


#: klog verbosity from which every CSI call is logged.
VERBOSE: Final = 5


provisioner_options: Final = options.combined(
    options.text_option("--csi-address", "SOCKET", "Socket of the CSI driver.", default="/run/csi/socket"),
    options.duration_option("--timeout", "10s", "Timeout of calls to the CSI driver."),
    options.duration_option(
        "--retry-interval-start",
        "1s",
        "Initial retry interval of failed provisioning or deletion; doubles with every failure.",
    ),
    options.duration_option("--retry-interval-max", "5m", "Maximum retry interval of failed provisioning or deletion."),
    options.count_option("--worker-threads", 100, "Maximum number of concurrent provisionings and deletions.", least=1),
    options.text_option("--volume-name-prefix", None, "Prefix of the names of provisioned volumes.", default="pvc"),
    options.count_option(
        "--volume-name-uuid-length",
        -1,
        "Characters of the claim's uid in volume names; -1 for the whole uid.",
        least=-1,
    ),
    options.text_option("--default-fstype", None, "File system of volumes whose StorageClass has no fstype parameter."),
    options.go_flag("--extra-create-metadata", "Pass the names of claim and volume to CreateVolume."),
    options.go_flag("--strict-topology", "Request only the topology segment of the selected node."),
    options.go_flag(
        "--immediate-topology", "Pass all topology segments for claims without a selected node.", default=True
    ),
    options.go_flag(
        "--controller-publish-readonly",
        "Mark volumes with access mode ReadOnlyMany as read-only at ControllerPublishVolume.",
    ),
    options.go_flag("--enable-capacity", "Publish CSIStorageCapacity objects."),
    options.count_option(
        "--capacity-ownerref-level",
        1,
        "Owner of CSIStorageCapacity objects: -1 none, 0 this pod, 1 its controller, 2 the controller's owner.",
        least=-1,
    ),
    options.duration_option("--capacity-poll-interval", "1m", "Interval of GetCapacity calls without other changes."),
    options.choice_option(
        "--capacity-segment-source",
        [source.value for source in SegmentSourceName],
        "Segments whose capacity is published: those of all CSINodes (topology), those listed in "
        "--capacity-segment-file (file), or the accessible topology that the driver's NodeGetInfo returns (driver).",
        default=SegmentSourceName.TOPOLOGY.value,
    ),
    options.text_option(
        "--capacity-segment-file",
        "FILE",
        "YAML list of maps from node label to value, one for each segment; read again every 5 seconds.",
    ),
    options.text_option(
        "--capacity-template-file",
        "FILE",
        "YAML list of node group templates whose capacity is published for nodes that do not exist yet; read again "
        "every 5 seconds.",
    ),
    options.go_flag(
        "--capacity-for-immediate-binding", "Publish CSIStorageCapacity objects for classes with Immediate binding."
    ),
    options.count_option("--capacity-threads", 1, "Maximum number of concurrent GetCapacity calls.", least=1),
    options.go_flag(
        "--capacity-watch-snapshots",
        "Call GetCapacity when a snapshot is taken or deleted; needs list and watch of volumesnapshotcontents in "
        "snapshot.storage.k8s.io.",
    ),
    options.go_flag("--node-deployment", "Provision only for the node in $NODE_NAME."),
    options.go_flag(
        "--node-deployment-immediate-binding",
        "Set this node as selected node on unclaimed Immediate-binding PVCs.",
        default=True,
    ),
    options.duration_option(
        "--node-deployment-base-delay",
        "20s",
        "Initial delay before a node selects itself for an Immediate-binding PVC.",
    ),
    options.duration_option(
        "--node-deployment-max-delay", "60s", "Maximum delay before a node selects itself for an Immediate-binding PVC."
    ),
    options.go_flag(
        "--enable-rollback", "Hold volumes until all volumes of the pod are available (`mooring docs rollback`)."
    ),
    options.go_flag("--leader-election", options.LEADER_ELECTION),
    options.text_option(
        "--leader-election-namespace", None, "Namespace of the leader-election Lease.  [default: the pod's namespace]"
    ),
    options.duration_option("--leader-election-lease-duration", "15s", options.LEASE_DURATION),
    options.duration_option("--leader-election-renew-deadline", "10s", options.RENEW_DEADLINE),
    options.duration_option("--leader-election-retry-period", "5s", options.RETRY_PERIOD),
    options.text_option(
        "--http-endpoint", "HOST:PORT", "Address of the health and metrics endpoints; disabled if empty."
    ),
    options.kubeconfig_options,
    options.gates_option("Feature gates to enable or disable: Topology, and Mooring's own."),
    options.log_level_option(),
    click.option(
        "-v", "--v", type=int, help="Log verbosity as in external-provisioner; 5 and above is --log-level=debug."
    ),
    click.option("--kube-api-qps", type=float, hidden=True),
    click.option("--kube-api-burst", type=int, hidden=True),
    click.option("--kube-api-capacity-qps", type=float, hidden=True),
    click.option("--kube-api-capacity-burst", type=int, hidden=True),
)


def process_flags(flags: ProvisionerFlags, *, lease: str, namespace: str, gates: str) -> options.ProcessFlags:
    """The part that every component's process has."""
    host, port = _address(flags["http_endpoint"])
    return options.ProcessFlags(
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


def settings(flags: ProvisionerFlags, *, namespace: str, node: str) -> ProvisionerSettings:
    deployment = NodeDeployment(
        node,
        immediate_binding=flags["node_deployment_immediate_binding"],
        base_delay=flags["node_deployment_base_delay"],
        max_delay=flags["node_deployment_max_delay"],
    )
    return ProvisionerSettings(
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
        timeout=flags["timeout"],
        namespace=namespace,
        node_deployment=deployment if flags["node_deployment"] else None,
        rollback=flags["enable_rollback"],
    )


def capacity_settings(flags: ProvisionerFlags, *, namespace: str) -> CapacitySettings | None:
    if not flags["enable_capacity"]:
        return None
    return CapacitySettings(
        namespace=namespace,
        poll_interval=flags["capacity_poll_interval"],
        for_immediate_binding=flags["capacity_for_immediate_binding"],
        segment_source=SegmentSourceName(flags["capacity_segment_source"]),
        segment_file=Path(flags["capacity_segment_file"]) if flags["capacity_segment_file"] else None,
        template_file=Path(flags["capacity_template_file"]) if flags["capacity_template_file"] else None,
        threads=flags["capacity_threads"],
        watch_snapshots=flags["capacity_watch_snapshots"],
        retry_interval_start=flags["retry_interval_start"],
        retry_interval_max=flags["retry_interval_max"],
    )


def notes(flags: ProvisionerFlags) -> list[str]:
    """Notes about flags without effect."""
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
    """What the environment must say because of the flags. Raises InvalidInput."""
    if not flags["volume_name_prefix"]:
        raise InvalidInput("--volume-name-prefix must not be empty.")
    _check_segments(flags)
    _check_templates(flags)
    if flags["node_deployment"] and not environment.get("NODE_NAME"):
        raise InvalidInput("--node-deployment needs the environment variable NODE_NAME: the node to work for.")
    if flags["enable_capacity"] and not environment.get("NAMESPACE"):
        raise InvalidInput(
            "--enable-capacity needs the environment variable NAMESPACE: the namespace of CSIStorageCapacity objects."
        )
    if flags["enable_capacity"] and flags["capacity_ownerref_level"] >= 0 and not environment.get("POD_NAME"):
        raise InvalidInput(
            "--enable-capacity needs the environment variable POD_NAME to find the objects' owner; without one, say "
            "--capacity-ownerref-level=-1."
        )


def _check_segments(flags: ProvisionerFlags) -> None:
    source, file = flags["capacity_segment_source"], flags["capacity_segment_file"]
    if source != SegmentSourceName.TOPOLOGY and flags["node_deployment"]:
        raise InvalidInput("--node-deployment publishes the segment of its node: leave --capacity-segment-source out.")
    if (source == SegmentSourceName.FILE) != bool(file):
        raise InvalidInput("--capacity-segment-source=file and --capacity-segment-file need each other.")
    if file:
        try:
            read_segments(Path(file))
        except BadCapacityFile as error:
            raise InvalidInput(f"--capacity-segment-file: {error}.") from error


def _check_templates(flags: ProvisionerFlags) -> None:
    file = flags["capacity_template_file"]
    if not file:
        return
    if not flags["enable_capacity"]:
        raise InvalidInput("--capacity-template-file needs --enable-capacity.")
    if flags["node_deployment"]:
        raise InvalidInput("--node-deployment publishes the segment of its node: leave --capacity-template-file out.")
    try:
        read_templates(Path(file))
    except BadCapacityFile as error:
        raise InvalidInput(f"--capacity-template-file: {error}.") from error


def gates_of(text: str) -> tuple[bool, str]:
    """Whether topology is used, and what is left of the gates for Mooring's own table. Raises InvalidInput."""
    topology, rest = True, []
    for part in filter(None, (each.strip() for each in text.split(","))):
        name, _, value = part.partition("=")
        if name != TOPOLOGY_GATE:
            rest.append(part)
        elif value.lower() not in ("true", "false"):
            raise InvalidInput(f"--feature-gates: write {TOPOLOGY_GATE}=true or {TOPOLOGY_GATE}=false.")
        else:
            topology = value.lower() == "true"
    return topology, ",".join(rest)


def _address(endpoint: str) -> tuple[str, int]:
    """`:8080` is the wildcard address, as in Go."""
    if not endpoint:
        return "", 0
    host, colon, port = endpoint.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65535:
        raise InvalidInput(f"--http-endpoint: {endpoint!r} is not HOST:PORT.")
    return host.strip("[]") or "0.0.0.0", int(port)
