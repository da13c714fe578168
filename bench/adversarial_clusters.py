"""Clusters that make one scheduling decision as expensive as possible: unusual objects, or very many of one kind.

Each shape is generated for any number of nodes, so that `bench/worst_decision.py` can measure it at 5,000 and a test
can count calls while the cluster doubles. The first three are ordinary decisions, which the others are compared with.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count
from typing import Any, Final, NamedTuple

from bench.scheduling_cycle import a_cluster, a_pod, apart, view
from mooring.api import well_known
from mooring.api.kinds import CLAIM, CSI_DRIVER, CSI_NODE, STORAGE_CAPACITY, STORAGE_CLASS, VOLUME
from mooring.api.views.pods import Pod
from mooring.scheduler.preemption.nominator import Nominator
from mooring.scheduler.snapshot.snapshot import Snapshot

DRIVER: Final = "csi.example.com"
ONCE: Final = ("ReadWriteOnce",)


class Shape(NamedTuple):
    """One decision: the pods to schedule, each once, in a cluster with these nominations."""

    snapshot: Snapshot
    pods: Iterator[Pod]
    nominator: Nominator


def _shape(snapshot: Snapshot, pod: Pod, nominator: Nominator | None = None) -> Shape:
    return Shape(snapshot, iter(lambda: pod, None), nominator or Nominator())


def _node(number: int) -> str:
    return f"node-{number:05}"


def _class(snapshot: Snapshot, name: str, provisioner: str = well_known.NO_PROVISIONER) -> None:
    late = {"provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer"}
    snapshot.volumes.observe_class(None, view(STORAGE_CLASS, name, **late))


def _claim(
    snapshot: Snapshot,
    name: str,
    size: str,
    *,
    of: str = "late",
    modes: Sequence[str] = ONCE,
    selector: Mapping[str, Any] | None = None,
) -> None:
    spec = {"accessModes": modes, "storageClassName": of, "resources": {"requests": {"storage": size}}}
    if selector is not None:
        spec["selector"] = selector
    claim = view(CLAIM, name, "default", spec=spec, status={"phase": "Pending"})
    snapshot.volumes.observe_claim(None, claim)


def _volume(
    snapshot: Snapshot,
    name: str,
    size: str,
    where: tuple[str, Sequence[str]] | None,
    *,
    of: str = "late",
    modes: Sequence[str] = ONCE,
    labels: Mapping[str, str] | None = None,
    driver: str = "",
) -> None:
    spec: dict[str, Any] = {"capacity": {"storage": size}, "accessModes": modes, "storageClassName": of}
    if where is not None:
        term = {"matchExpressions": [{"key": where[0], "operator": "In", "values": list(where[1])}]}
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [term]}}
    if driver:
        spec["csi"] = {"driver": driver, "volumeHandle": name}
    volume = view(VOLUME, name, labels=dict(labels or {}), spec=spec, status={"phase": "Available"})
    snapshot.volumes.observe_volume(None, volume)


def _room(snapshot: Snapshot, name: str, free: str, selector: Mapping[str, Any], *, of: str = "late") -> None:
    fields = {"storageClassName": of, "nodeTopology": selector, "capacity": free, "maximumVolumeSize": free}
    snapshot.volumes.observe_capacity(None, view(STORAGE_CAPACITY, name, "default", **fields))


def _with_claims(*names: str, **spec: object) -> Pod:
    volumes = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in names]
    return a_pod(volumes=volumes, **spec)


def _tracked(nodes: int, free: str, *sizes: str) -> tuple[Snapshot, Pod]:
    """Every node reports this much free capacity, and a pod has claims of these sizes."""
    snapshot = a_cluster(nodes, 0)
    _class(snapshot, "late", DRIVER)
    snapshot.volumes.observe_driver(None, view(CSI_DRIVER, DRIVER, spec={"storageCapacity": True}))
    for number in range(nodes):
        _room(snapshot, f"room-{number}", free, {"matchLabels": {well_known.HOSTNAME: _node(number)}})
    names = [f"c{number}" for number in range(len(sizes))]
    for name, size in zip(names, sizes, strict=True):
        _claim(snapshot, name, size)
    return snapshot, _with_claims(*names)


def plain(nodes: int) -> Shape:
    return _shape(a_cluster(nodes, 0), a_pod())


def anti_affinity(nodes: int) -> Shape:
    return _shape(a_cluster(nodes, 0), a_pod(affinity=apart("db")))


def two_claims(nodes: int) -> Shape:
    return _shape(a_cluster(nodes, 2 * nodes), _with_claims("small", "large"))


def all_short(nodes: int) -> Shape:
    return _shape(*_tracked(nodes, "10Gi", "6Gi", "6Gi"))


def stray_volume(nodes: int) -> Shape:
    """No node has capacity for both claims, and one unrelated volume exists."""
    snapshot, pod = _tracked(nodes, "10Gi", "6Gi", "6Gi")
    _volume(snapshot, "stray", "1Gi", (well_known.HOSTNAME, [_node(0)]))
    return _shape(snapshot, pod)


def stray_volume_everywhere(nodes: int) -> Shape:
    """The same, with a volume on every node that matches one claim of three."""
    snapshot, pod = _tracked(nodes, "10Gi", "6Gi", "6Gi", "7Gi")
    for number in range(nodes):
        _volume(snapshot, f"stray-{number}", "6Gi", (well_known.HOSTNAME, [_node(number)]))
    return _shape(snapshot, pod)


def overlapping_segments(nodes: int) -> Shape:
    """Every node is in two segments of a class, neither of which has capacity for both claims."""
    snapshot, pod = _tracked(nodes, "10Gi", "8Gi", "8Gi", "8Gi")
    for number in range(3):
        _room(snapshot, f"zone-{number}", "10Gi", {"matchLabels": {well_known.ZONE: f"zone-{number}"}})
    return _shape(snapshot, pod)


def many_claims(nodes: int) -> Shape:
    """Twelve claims of a class with eleven volumes on every node."""
    snapshot = a_cluster(nodes, 0)
    _class(snapshot, "late")
    for number in range(11 * nodes):
        _volume(snapshot, f"v{number}", "10Gi", (well_known.HOSTNAME, [_node(number % nodes)]))
    names = [f"c{number}" for number in range(12)]
    for number, name in enumerate(names):
        _claim(snapshot, name, f"{number % 3 + 1}Gi")
    return _shape(snapshot, _with_claims(*names))


def huge_class(nodes: int) -> Shape:
    """Twenty volumes of one class on every node, and claims whose sizes are no whole bytes."""
    snapshot = a_cluster(nodes, 0)
    _class(snapshot, "late")
    for number in range(20 * nodes):
        _volume(snapshot, f"v{number}", str(number % 7 + 1), (well_known.HOSTNAME, [_node(number % nodes)]))
    _claim(snapshot, "c0", "7600m")
    _claim(snapshot, "c1", "2500m")
    return _shape(snapshot, _with_claims("c0", "c1"))


def odd_access_modes(nodes: int) -> Shape:
    """Three claims with different access modes that compete for the same two volumes."""
    snapshot = a_cluster(nodes, 0)
    _class(snapshot, "late")
    once, many, read = "ReadWriteOnce", "ReadWriteMany", "ReadOnlyMany"
    for number in range(nodes):
        for name, modes in (("a", (once, many, read)), ("b", (once, many))):
            _volume(snapshot, f"{name}-{number}", "10Gi", (well_known.HOSTNAME, [_node(number)]), modes=modes)
    for name, mode in (("c0", once), ("c1", many), ("c2", read)):
        _claim(snapshot, name, "5Gi", modes=[mode])
    return _shape(snapshot, _with_claims("c0", "c1", "c2"))


def claims_with_selectors(nodes: int) -> Shape:
    """A claim with and two without selector, and two volumes on every node, one of which matches the selector."""
    snapshot = a_cluster(nodes, 0)
    _class(snapshot, "late")
    for number in range(nodes):
        for medium in ("ssd", "hdd"):
            where = (well_known.HOSTNAME, [_node(number)])
            _volume(snapshot, f"{medium}-{number}", "10Gi", where, labels={"medium": medium})
    _claim(snapshot, "c0", "5Gi", selector={"matchLabels": {"medium": "ssd"}})
    _claim(snapshot, "c1", "6Gi")
    _claim(snapshot, "c2", "7Gi")
    return _shape(snapshot, _with_claims("c0", "c1", "c2"))


def many_selectors(nodes: int) -> Shape:
    """Every pod has a claim with a different selector, more of them than are cached."""
    snapshot = a_cluster(nodes, 0)
    _class(snapshot, "late")
    for number in range(nodes):
        labels = {"shard": str(number), "medium": "ssd"}
        _volume(snapshot, f"v{number}", "10Gi", (well_known.HOSTNAME, [_node(number)]), labels=labels)
        selector = {"matchLabels": {"medium": "ssd", "shard": str(number)}}
        _claim(snapshot, f"c{number}", "5Gi", selector=selector)
    return Shape(snapshot, (_with_claims(f"c{number * 7 % nodes}") for number in count()), Nominator())


def many_topologies(nodes: int) -> Shape:
    """A volume and a capacity segment for every five nodes: a rack each."""
    snapshot, pod = _tracked(nodes, "1Gi", "6Gi", "7Gi")
    for rack in range(nodes // 5):
        hosts = [_node(5 * rack + number) for number in range(5)]
        _volume(snapshot, f"v{rack}", "10Gi", (well_known.HOSTNAME, hosts))
        where = {"matchExpressions": [{"key": well_known.HOSTNAME, "operator": "In", "values": hosts}]}
        _room(snapshot, f"rack-{rack}", "5Gi", where)
    return _shape(snapshot, pod)


def limits_in_doubt(nodes: int) -> Shape:
    """Every node has reached its limit of a driver, and on each the smallest volume is one of that driver."""
    snapshot = a_cluster(nodes, 0)
    _class(snapshot, "late")
    for number in range(nodes):
        drivers = {"drivers": [{"name": DRIVER, "nodeID": "n", "allocatable": {"count": 0}}]}
        snapshot.volumes.observe_csi_node(None, view(CSI_NODE, _node(number), spec=drivers))
        where = (well_known.HOSTNAME, [_node(number)])
        _volume(snapshot, f"csi-{number}", "6Gi", where, driver=DRIVER)
        for name in ("a", "b") if number % 2 else ("a",):
            _volume(snapshot, f"{name}-{number}", "10Gi", where)
    _claim(snapshot, "c0", "5Gi")
    _claim(snapshot, "c1", "6Gi")
    return _shape(snapshot, _with_claims("c0", "c1"))


def migrated_disk(nodes: int) -> Shape:
    """The pod's volume is an in-tree disk, and every node has migrated its plugin to a driver."""
    snapshot = a_cluster(nodes, 0)
    notes = {well_known.MIGRATED_PLUGINS: "kubernetes.io/aws-ebs"}
    for number in range(nodes):
        meta = {"name": _node(number), "uid": _node(number), "annotations": notes}
        snapshot.volumes.observe_csi_node(None, view(CSI_NODE, _node(number), metadata=meta, spec={"drivers": []}))
    asked: dict[str, Any] = {"storageClassName": "late", "accessModes": ONCE}
    disk: dict[str, Any] = asked | {"capacity": {"storage": "5Gi"}, "awsElasticBlockStore": {"volumeID": "disk"}}
    disk["claimRef"] = {"namespace": "default", "name": "c0", "uid": "c0"}
    snapshot.volumes.observe_volume(None, view(VOLUME, "disk", spec=disk, status={"phase": "Bound"}))
    meta = {"name": "c0", "namespace": "default", "uid": "c0", "annotations": {well_known.BIND_COMPLETED: "yes"}}
    asked |= {"volumeName": "disk", "resources": {"requests": {"storage": "5Gi"}}}
    snapshot.volumes.observe_claim(None, view(CLAIM, "c0", metadata=meta, spec=asked, status={"phase": "Bound"}))
    return _shape(snapshot, _with_claims("c0"))


def _nominated(nodes: int, **spec: object) -> Nominator:
    nominator = Nominator()
    for number in range(nodes * 2 // 5):
        pod = a_pod(f"nominated-{number}", priority=10, **spec)
        nominator.put(pod, _node(number * 7 % nodes))
    return nominator


def many_nominations(nodes: int) -> Shape:
    return _shape(a_cluster(nodes, 0), a_pod(), _nominated(nodes))


def nominated_and_apart(nodes: int) -> Shape:
    """The nominated pods have anti-affinity to each other and to the pod."""
    pod = a_pod(affinity=apart("db"))
    return _shape(a_cluster(nodes, 0), pod, _nominated(nodes, affinity=apart("db")))


def _crowd(nodes: int, spec_of: Callable[[int], Mapping[str, Any]]) -> Snapshot:
    snapshot = a_cluster(nodes, 0)
    for number in range(nodes):
        pod = a_pod(f"running-{number}", nodeName=_node(number), **spec_of(number))
        snapshot.observe_pod(None, pod)
    return snapshot


def _term(unlike: str) -> dict[str, Any]:
    """About every pod of the app; no two are equal."""
    expressions = [
        {"key": "app", "operator": "In", "values": ["db"]},
        {"key": "name", "operator": "NotIn", "values": [unlike]},
    ]
    return {"topologyKey": well_known.HOSTNAME, "labelSelector": {"matchExpressions": expressions}}


def distinct_required_terms(nodes: int) -> Shape:
    """Every running pod has its own required anti-affinity term that matches the pod."""

    def own(number: int) -> Mapping[str, Any]:
        terms = [_term(f"running-{number}")] if number % 10 else []
        return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}

    return _shape(_crowd(nodes, own), a_pod())


def distinct_preferred_terms(nodes: int) -> Shape:
    """Every running pod has its own preferred anti-affinity term that matches the pod."""

    def own(number: int) -> Mapping[str, Any]:
        wish = {"weight": 1 + number % 100, "podAffinityTerm": _term(f"running-{number}")}
        return {"affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [wish]}}}

    return _shape(_crowd(nodes, own), a_pod())


def large_group(nodes: int) -> Shape:
    """A pod on every node, all of one app, with affinity and spread constraints, and one more to schedule."""
    selector = {"matchLabels": {"app": "db"}}
    spread = [
        {"topologyKey": key, "maxSkew": skew, "whenUnsatisfiable": when, "labelSelector": selector}
        for key, skew in ((well_known.ZONE, 2), (well_known.HOSTNAME, 2))
        for when in ("DoNotSchedule", "ScheduleAnyway")
    ]
    near = {"topologyKey": well_known.ZONE, "labelSelector": selector}
    spec = {
        "topologySpreadConstraints": spread,
        "affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [near]}},
    }
    return _shape(_crowd(nodes, lambda _: spec), a_pod(**spec))


def shared_disk(nodes: int) -> Shape:
    """A pod on every node reads one disk, and the pod mounts it writable."""

    def disk(*, read_only: bool) -> Mapping[str, Any]:
        source = {"targetPortal": "10.0.0.1", "iqn": "iqn.2026-01.com.example:1", "lun": 0, "readOnly": read_only}
        return {"volumes": [{"name": "disk", "iscsi": source}]}

    return _shape(_crowd(nodes, lambda _: disk(read_only=True)), a_pod(**disk(read_only=False)))


ORDINARY: Final[Mapping[str, Callable[[int], Shape]]] = {
    "plain pod": plain,
    "anti-affinity to half the nodes": anti_affinity,
    "two late-bound claims, two volumes per node": two_claims,
}

ADVERSARIAL: Final[Mapping[str, Callable[[int], Shape]]] = {
    "no node has capacity for both claims": all_short,
    "the same, one stray volume": stray_volume,
    "three claims, a stray volume on every node": stray_volume_everywhere,
    "every node in two segments, three claims": overlapping_segments,
    "twelve claims, eleven volumes per node": many_claims,
    "huge class, claims of no whole bytes": huge_class,
    "three claims with odd access modes compete": odd_access_modes,
    "claims with and without selector compete": claims_with_selectors,
    "a disk whose plugin every node has migrated": migrated_disk,
    "every claim has a selector of its own": many_selectors,
    "a volume and a segment for every five nodes": many_topologies,
    "limits in doubt on every node": limits_in_doubt,
    "nominated pods on two fifths of the nodes": many_nominations,
    "the same, all apart from each other": nominated_and_apart,
    "a required term of its own on every pod": distinct_required_terms,
    "a preferred term of its own on every pod": distinct_preferred_terms,
    "large group, spread and near": large_group,
    "one disk on every node": shared_disk,
}
