"""Checks of StorageClasses and CSI drivers: binding mode, topologies, capacity tracking, registration on nodes."""

from collections.abc import Iterator
from typing import Final

from mooring.api import well_known
from mooring.api.kinds import CLAIM, CSI_DRIVER, CSI_NODE, NODE, STORAGE_CAPACITY, STORAGE_CLASS, VOLUME
from mooring.api.node_selectors import TopologySelector, topologies_from_view
from mooring.api.pod_requirements import FORBIDDING
from mooring.api.views.core import Node
from mooring.api.views.storage import StorageClass
from mooring.doctor.findings import MAX_LISTED, Finding, Severity
from mooring.explain.cluster_objects import ClusterObjects, lost_since
from mooring.explain.cluster_view import ClusterView
from mooring.explain.provisioning import Presence, provisioner
from mooring.explain.text import counted_noun, listed_names
from mooring.pvcontroller.migration import serving_provisioner
from mooring.volumes.topology import TopologyIndex

#: Keys that a driver may report without its volumes being limited to some nodes of a cluster in one zone.
_WIDE: Final = frozenset({well_known.REGION, well_known.REGION_BETA})


def topology_keys(objects: ClusterObjects, driver: str) -> tuple[str, ...]:
    """The topology keys of a driver on any node."""
    found = (
        one.topology_keys for each in objects.of(CSI_NODE) for one in each.spec.drivers or () if one.name == driver
    )
    return tuple(dict.fromkeys(key for keys in found for key in keys))


def _drivers(objects: ClusterObjects) -> dict[str, list[StorageClass]]:
    """Classes by the driver that provisions for them."""
    found: dict[str, list[StorageClass]] = {}
    for each in sorted(objects.of(STORAGE_CLASS), key=lambda one: one.name):
        if driver := serving_provisioner(each.provisioner):
            found.setdefault(driver, []).append(each)
    return found


def immediate_findings(view: ClusterView) -> Iterator[Finding]:
    """Classes that bind at once although their volumes can be used on some nodes only."""
    objects = view.objects
    for each in sorted(objects.of(STORAGE_CLASS), key=lambda one: one.name):
        if not each.immediate:
            continue
        keys = [key for key in topology_keys(objects, serving_provisioner(each.provisioner)) if key not in _WIDE]
        reasons = [f"topology keys of {each.provisioner}: {', '.join(keys)}"] if keys else []
        if each.allowed_topologies:
            reasons.append("the class has allowedTopologies")
        if each.provisioner == well_known.NO_PROVISIONER:
            local = sum(
                one.storage_class == each.name and one.required_affinity is not None for one in objects.of(VOLUME)
            )
            reasons += [f"{counted_noun(local, 'volume')} of the class with node affinity"] if local else []
        if reasons:
            claims = sum(claim.storage_class == each.name for claim in objects.of(CLAIM))
            yield Finding(
                severity=Severity.WARNING,
                code="ImmediateBinding",
                object=f"StorageClass {each.name}",
                problem="volumeBindingMode is Immediate, and its volumes can be used on some nodes only: a volume is "
                "chosen before its pod, and the pod may not be schedulable where the volume is.",
                evidence=tuple(reasons),
                fix="create a class with volumeBindingMode WaitForFirstConsumer (the field of an existing class "
                "cannot be "
                "changed) and use it for new claims",
                affected=max(claims, 1),
            )


def topology_findings(view: ClusterView) -> Iterator[Finding]:
    """Classes with allowedTopologies that no node has."""
    objects = view.objects
    index = TopologyIndex.of(objects.of(NODE))
    labels = {label for node in objects.of(NODE) for label in node.metadata.labels.items()}
    for each in sorted(objects.of(STORAGE_CLASS), key=lambda one: one.name):
        terms = topologies_from_view(each.allowed_topologies).terms
        empty = [term for term in terms if not index.allowed(TopologySelector((term,)))]
        # A term may name several zones: those without a node are reported one by one.
        missing = sorted(
            {
                f"{one.key}={value}"
                for term in each.allowed_topologies
                for one in term.match_label_expressions
                for value in one.values
                if (one.key, value) not in labels
            }
        )
        if not empty and not missing:
            continue
        nowhere = len(empty) == len(terms)
        claims = sum(not claim.spec.volume_name and claim.storage_class == each.name for claim in objects.of(CLAIM))
        yield Finding(
            severity=Severity.ERROR if nowhere else Severity.WARNING,
            code="ClassTopologyMissing",
            object=f"StorageClass {each.name}",
            problem="no node has a topology that allowedTopologies names: no volume of the class can be provisioned."
            if nowhere
            else "allowedTopologies names topologies that no node has.",
            evidence=(f"without a node: {listed_names(missing, MAX_LISTED) or 'the combination of labels'}",),
            fix="add nodes there, label the nodes that are there, or create the class again without those values",
            affected=max(claims, 1),
        )


def tracking_findings(view: ClusterView) -> Iterator[Finding]:
    """Drivers whose capacity the scheduler does not check."""
    objects = view.objects
    for driver, classes in _drivers(objects).items():
        known = objects.get(CSI_DRIVER, driver)
        delayed = {each.name for each in classes if each.delayed}
        if not delayed or (known is not None and known.spec.storage_capacity):
            continue
        published = [each for each in objects.of(STORAGE_CAPACITY) if each.storage_class_name in delayed]
        keys = topology_keys(objects, driver)
        state = f"CSIDriver {driver} has no storageCapacity: true" if known is not None else f"no CSIDriver {driver}"
        if published:
            yield Finding(
                severity=Severity.WARNING,
                code="CapacityNotTracked",
                object=f"CSIDriver {driver}",
                problem=f"{counted_noun(len(published), 'CSIStorageCapacity object')} of its classes are published and "
                "ignored by the scheduler: pods go to nodes without free storage.",
                evidence=(state, f"classes: {listed_names(sorted(delayed), MAX_LISTED)}"),
                fix=_track(driver),
                affected=len(published),
            )
        elif known is not None and [key for key in keys if key not in (well_known.ZONE, *_WIDE)]:
            yield Finding(
                severity=Severity.INFO,
                code="CapacityNotTracked",
                object=f"CSIDriver {driver}",
                problem="its volumes belong to nodes, and the scheduler does not check free storage before it selects "
                "one.",
                evidence=(state, f"topology keys: {', '.join(keys)}"),
                fix=f"run its provisioner with --enable-capacity; then {_track(driver)}",
            )


def _track(driver: str) -> str:
    patch = '{"spec":{"storageCapacity":true}}'
    return f"kubectl patch csidriver {driver} --type merge -p '{patch}'"


def registration_findings(view: ClusterView) -> Iterator[Finding]:
    """Drivers of classes that do not run, and nodes without a driver whose volumes may be sent there."""
    objects = view.objects
    for driver, classes in _drivers(objects).items():
        names = {each.name for each in classes}
        waiting = sum(not claim.spec.volume_name and claim.storage_class in names for claim in objects.of(CLAIM))
        state = provisioner(driver, objects)
        if state.presence in (Presence.ABSENT, Presence.SILENT):
            yield Finding(
                severity=Severity.ERROR if waiting else Severity.WARNING,
                code="ProvisionerAbsent",
                object=f"StorageClass {min(names)}",
                problem=f"its provisioner {driver} is {state.presence.value}: {counted_noun(waiting, 'claim')} "
                "without a "
                "volume, and every further one, stays Pending.",
                evidence=(state.why,),
                fix=f"start provisioner {driver}, or delete the class if the driver was uninstalled",
                affected=max(waiting, 1),
            )
        yield from _unregistered(objects, driver)


def _unregistered(objects: ClusterObjects, driver: str) -> Iterator[Finding]:
    known = objects.get(CSI_DRIVER, driver)
    listed = {each.name: {one.name for one in each.spec.drivers or ()} for each in objects.of(CSI_NODE)}
    has_driver = any(driver in drivers for drivers in listed.values())
    # Topology keeps pods off nodes without the driver, and so does preventPodSchedulingIfMissing.
    if (
        known is None
        or known.spec.prevent_pod_scheduling_if_missing
        or not has_driver
        or topology_keys(objects, driver)
    ):
        return
    nodes = sorted(
        node.name
        for node in objects.of(NODE)
        if _accepts_pods(node, objects) and driver not in listed.get(node.name, frozenset())
    )
    if nodes:
        yield Finding(
            severity=Severity.WARNING,
            code="DriverNotOnNode",
            object=f"CSIDriver {driver}",
            problem=f"{counted_noun(len(nodes), 'schedulable node')} lack the driver, and its volumes have no "
            "topology: "
            "pods may be scheduled there and then cannot mount.",
            evidence=(f"nodes: {listed_names(nodes, MAX_LISTED)}",),
            fix="run the driver on all schedulable nodes, or set preventPodSchedulingIfMissing in its CSIDriver "
            "(Kubernetes "
            "1.36 and later)",
            affected=len(nodes),
        )


def _accepts_pods(node: Node, objects: ClusterObjects) -> bool:
    tainted = any(taint.effect in FORBIDDING for taint in node.spec.taints)
    return not node.spec.unschedulable and not tainted and lost_since(node, objects.moment) is None
