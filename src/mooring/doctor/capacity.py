"""Checks of CSIStorageCapacity objects: wrong, stale, foreign, duplicate and missing ones. Pure.

The scheduler trusts these objects: a value too large sends pods to nodes where no volume can be provisioned; a value
too small, or a missing object, keeps pods off nodes that have storage.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Final, NamedTuple

from mooring.api import quantity
from mooring.api.kinds import CLAIM, CSI_DRIVER, CSI_NODE, NODE, STORAGE_CAPACITY, STORAGE_CLASS, VOLUME
from mooring.api.quantity import QuantityError
from mooring.api.selectors import SelectorError
from mooring.api.views.storage import StorageCapacity, StorageClass
from mooring.doctor.findings import MAX_LISTED, Finding, Severity
from mooring.explain.capacity import figures_text, segment_text
from mooring.explain.cluster_objects import ClusterObjects, moment
from mooring.explain.cluster_view import ClusterView
from mooring.explain.messages import find
from mooring.explain.messages.claims import RESOURCE_EXHAUSTED
from mooring.explain.provisioning import FAILED, SUCCEEDED, Presence, provisioner
from mooring.explain.text import counted_noun, listed_names
from mooring.explain.volume_candidates import quantity_text
from mooring.provisioner.capacity.objects import DRIVER_LABEL, entry_of
from mooring.pvcontroller.migration import serving_provisioner
from mooring.volumes.capacity import limit_of, segment_of
from mooring.volumes.topology import EMPTY, NodeSet, TopologyIndex, affinity_of

#: Failures of one claim after which a change of the selected node no longer explains them.
REPEATED: Final = 2


class ReportedCapacity(NamedTuple):
    """A capacity object with its class, driver, value and nodes."""

    item: StorageCapacity
    #: None if the class does not exist.
    storage_class: StorageClass | None
    driver: str
    #: The largest volume, in bytes; None if the object has no valid value.
    limit: int | None
    nodes: NodeSet

    @property
    def text(self) -> str:
        return f"{self.item.key} ({segment_text(self.item.node_topology)}): {figures_text(self.item)}"


class ReportedCapacities:
    """All capacity objects of a cluster, by key."""

    def __init__(self, objects: ClusterObjects) -> None:
        self.objects = objects
        self.topology = TopologyIndex.of(objects.of(NODE))
        self.classes: Mapping[str, StorageClass] = {each.name: each for each in objects.of(STORAGE_CLASS)}
        self.all = [self._judged(each) for each in sorted(objects.of(STORAGE_CAPACITY), key=lambda one: one.key)]
        self.by_class: defaultdict[str, list[ReportedCapacity]] = defaultdict(list)
        for each in self.all:
            self.by_class[each.item.storage_class_name].append(each)

    def driver_of(self, storage_class: str) -> str:
        found = self.classes.get(storage_class)
        return "" if found is None else serving_provisioner(found.provisioner)

    @cached_property
    def registered(self) -> Mapping[str, Mapping[str, tuple[str, ...]]]:
        """By driver, the nodes that have it, with the topology keys that it reports there."""
        found: defaultdict[str, dict[str, tuple[str, ...]]] = defaultdict(dict)
        for each in self.objects.of(CSI_NODE):
            for one in each.spec.drivers or () if each.name in self.topology else ():
                found[one.name][each.name] = one.topology_keys
        return found

    @cached_property
    def used_nodes(self) -> Mapping[str, NodeSet]:
        """By driver, the nodes that reach one of its volumes."""
        found: defaultdict[str, NodeSet] = defaultdict(lambda: EMPTY)
        for volume in self.objects.of(VOLUME):
            if volume.spec.csi is not None:
                found[volume.spec.csi.driver] |= self.topology.matching(affinity_of(volume))
        return found

    def _judged(self, item: StorageCapacity) -> ReportedCapacity:
        driver = self.driver_of(item.storage_class_name) or item.metadata.labels.get(DRIVER_LABEL, "")
        try:
            limit, nodes = limit_of(item), self.topology.matching(segment_of(item.node_topology))
        except (QuantityError, SelectorError):
            limit, nodes = None, EMPTY
        return ReportedCapacity(item, self.classes.get(item.storage_class_name), driver, limit, nodes)


def capacity_findings(view: ClusterView) -> Iterator[Finding]:
    """All findings about capacity objects."""
    reported = ReportedCapacities(view.objects)
    yield from _stale(reported)
    yield from _overstated(reported, view)
    yield from _merged_segments(reported)
    yield from _contradictory(reported)
    yield from _zero(reported)
    yield from _foreign(reported)
    yield from _duplicate(reported)


def missing_findings(view: ClusterView) -> Iterator[Finding]:
    """Nodes with a driver that reports capacity, and without a capacity object of a class."""
    reported = ReportedCapacities(view.objects)
    waiting = _waiting_claims(view.objects)
    for name, each in sorted(reported.classes.items()):
        driver = reported.driver_of(name)
        known = view.objects.get(CSI_DRIVER, driver)
        nodes = sorted(reported.registered.get(driver, ()))
        if not each.delayed or known is None or not known.spec.storage_capacity or not nodes:
            continue
        covered = EMPTY
        for one in reported.by_class[name]:
            covered |= one.nodes
        without = [node for node in nodes if not reported.topology.named(node) & covered]
        if without:
            yield Finding(
                severity=Severity.ERROR if len(without) == len(nodes) else Severity.WARNING,
                code="CapacityMissing",
                object=f"StorageClass {name}",
                problem=f"{driver} is registered on {counted_noun(len(without), 'node')} without a CSIStorageCapacity "
                "of "
                f"the class: pods that need a new volume of it are not scheduled there.",
                evidence=(f"nodes without an object: {listed_names(without, MAX_LISTED)}",),
                fix=f"check that the capacity publisher of {driver} runs, may write csistoragecapacities, and that its "
                f"GetCapacity accepts the parameters of {name}",
                affected=max(len(without), waiting[name]),
            )


def _waiting_claims(objects: ClusterObjects) -> Counter[str]:
    """Number of claims without a volume, by class."""
    return Counter(claim.storage_class for claim in objects.of(CLAIM) if not claim.spec.volume_name)


def _stale(reported: ReportedCapacities) -> Iterator[Finding]:
    by_driver = Counter(each.driver for each in reported.all if each.driver)
    for driver, number in sorted(by_driver.items()):
        state = provisioner(driver, reported.objects)
        if state.presence in (Presence.SILENT, Presence.ABSENT):
            yield Finding(
                severity=Severity.ERROR if state.presence is Presence.SILENT else Severity.WARNING,
                code="CapacityStale",
                object=f"CSIDriver {driver}",
                problem=f"{counted_noun(number, 'CSIStorageCapacity object')} of {driver} may be stale: the "
                "provisioner "
                f"that updates them is {state.presence.value}.",
                evidence=(state.why,),
                fix=f"start the provisioner of {driver}; if the driver was uninstalled, delete the objects: kubectl "
                "delete "
                f"csistoragecapacities -A -l {DRIVER_LABEL}={driver}",
                affected=number,
            )


def _overstated(reported: ReportedCapacities, view: ClusterView) -> Iterator[Finding]:
    """Objects that report enough after the driver returned ResourceExhausted for less."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    by_key = {each.item.key: each for each in reported.all}
    for claim in sorted(view.objects.of(CLAIM), key=lambda one: one.key):
        if claim.spec.volume_name:
            continue
        last = view.events.last(CLAIM, claim, FAILED, SUCCEEDED)
        if last is None or last.reason != FAILED or RESOURCE_EXHAUSTED not in find(last.message):
            continue
        selected = reported.topology.named(claim.selected_node or "")
        try:
            wanted = quantity.to_bytes(claim.request)
        except QuantityError:
            continue
        for each in reported.by_class[claim.storage_class]:
            concerned = each.nodes & selected if selected else last.count >= REPEATED
            if concerned and each.limit is not None and each.limit >= wanted:
                size = quantity_text(claim.request)
                found[each.item.key].append(f"{moment(last)}: ResourceExhausted for {claim.key} ({size})")
    for key, failures in found.items():
        each = by_key[key]
        yield Finding(
            severity=Severity.ERROR,
            code="CapacityOverstated",
            object=f"CSIStorageCapacity {key}",
            problem=f"{each.driver} reports {figures_text(each.item)}, and rejects smaller volumes: the same nodes are "
            "selected again and again.",
            evidence=(each.text, *failures[:MAX_LISTED]),
            fix="a publisher that reports the sum of several pools has to set maximumVolumeSize to the largest volume "
            "that "
            f"one pool can hold; until then, limit the class to one pool per node, or restart the publisher of "
            f"{each.driver} "
            "if its values are old",
            affected=len(failures),
        )


def _merged_segments(reported: ReportedCapacities) -> Iterator[Finding]:
    """One value for nodes between which the driver distinguishes."""
    for each in reported.all:
        view = each.item.node_topology
        if view is None or not each.nodes or each.item.maximum_volume_size is not None:
            continue
        selected = {*view.match_labels, *(one.key for one in view.match_expressions)}
        keys: dict[str, set[str]] = defaultdict(set)
        registered = reported.registered.get(each.driver, {})
        for node in reported.topology.names(each.nodes):
            for key in registered.get(node, ()):
                keys[key].add(reported.topology.labels(node).get(key, ""))
        merged = {key: values for key, values in keys.items() if key not in selected and len(values) > 1}
        if merged:
            key, values = max(merged.items(), key=lambda item: (len(item[1]), item[0]))
            yield Finding(
                severity=Severity.WARNING,
                code="CapacitySum",
                object=f"CSIStorageCapacity {each.item.key}",
                problem=f"it reports one capacity for {counted_noun(len(values), 'segment')} of {each.driver} and no "
                "maximumVolumeSize: if that is their sum, volumes are requested that no segment can hold.",
                evidence=(
                    each.text,
                    f"topology key of the driver: {key}, values {listed_names(sorted(values), MAX_LISTED)}",
                ),
                fix="publish one object per segment, with all topology keys of the driver in nodeTopology, or set "
                "maximumVolumeSize",
                affected=len(values),
            )


def _contradictory(reported: ReportedCapacities) -> Iterator[Finding]:
    for each in reported.all:
        item = each.item
        if item.capacity is None or item.maximum_volume_size is None or each.limit is None:
            continue
        if each.limit > quantity.to_bytes(item.capacity):
            yield Finding(
                severity=Severity.WARNING,
                code="CapacityContradictory",
                object=f"CSIStorageCapacity {item.key}",
                problem="its maximumVolumeSize is larger than its capacity, and the scheduler uses maximumVolumeSize "
                "alone.",
                evidence=(each.text,),
                fix=f"report that to the authors of {each.driver}: maximumVolumeSize must be what fits now, not a "
                "limit of "
                "the backend",
            )


def _zero(reported: ReportedCapacities) -> Iterator[Finding]:
    """Classes without any capacity, and segments that report zero before they have a volume."""
    waiting = _waiting_claims(reported.objects)
    for name, those in sorted(reported.by_class.items()):
        zero = [each for each in those if each.limit == 0 and each.nodes]
        usable = [each for each in those if each.limit and each.nodes]
        if zero and not usable:
            yield _zero_finding(
                Severity.ERROR if waiting[name] else Severity.WARNING,
                name,
                zero,
                "every segment of the class reports capacity 0: no pod with a new volume of it can be scheduled.",
                waiting[name],
            )
            continue
        unused = [each for each in zero if not reported.used_nodes.get(each.driver, EMPTY) & each.nodes]
        if unused:
            problem = (
                f"{counted_noun(len(unused), 'segment')} without any volume of the driver reports capacity 0: some "
                "drivers "
                "do so until their pool exists."
            )
            yield _zero_finding(Severity.WARNING, name, unused, problem, len(unused))


def _zero_finding(
    severity: Severity, name: str, zero: Sequence[ReportedCapacity], problem: str, affected: int
) -> Finding:
    driver = zero[0].driver
    return Finding(
        severity=severity,
        code="CapacityZero",
        object=f"StorageClass {name}",
        problem=problem,
        evidence=tuple(each.text for each in zero[:MAX_LISTED]),
        fix=f"create the pool (volume group, thin pool) on those nodes and check that GetCapacity of {driver} counts "
        "its "
        "free space, not that of the volume group below it; free or add storage if the pool is full",
        affected=max(affected, 1),
    )


def _foreign(reported: ReportedCapacities) -> Iterator[Finding]:
    """Objects that no decision uses as their publisher meant."""
    reasons: defaultdict[tuple[str, str], list[ReportedCapacity]] = defaultdict(list)
    for each in reported.all:
        label = each.item.metadata.labels.get(DRIVER_LABEL, "")
        if each.storage_class is None:
            reasons["CapacityForeign", f"StorageClass {each.item.storage_class_name} does not exist"].append(each)
        elif label and label != reported.driver_of(each.item.storage_class_name):
            of_class = each.storage_class.provisioner
            reasons["CapacityForeign", f"{label} wrote it for a class of {of_class}"].append(each)
        elif not each.nodes:
            reasons["CapacityOfNoNode", "its nodeTopology selects no node"].append(each)
    for (code, reason), those in sorted(reasons.items()):
        names = [each.item.key for each in those]
        yield Finding(
            severity=Severity.WARNING if code == "CapacityForeign" else Severity.INFO,
            code=code,
            object=f"CSIStorageCapacity {names[0]}" + (f" and {len(names) - 1} more" if len(names) > 1 else ""),
            problem=f"{reason}.",
            evidence=tuple(each.text for each in those[:MAX_LISTED]),
            fix="let its publisher delete it, or if the publisher no longer runs: kubectl -n "
            f"{those[0].item.namespace} delete csistoragecapacity {those[0].item.name}",
            affected=len(those),
        )


def _duplicate(reported: ReportedCapacities) -> Iterator[Finding]:
    same: defaultdict[object, list[ReportedCapacity]] = defaultdict(list)
    for each in reported.all:
        if each.storage_class is not None and each.nodes and (entry := entry_of(each.item)) is not None:
            same[entry].append(each)
    for those in same.values():
        if len(those) > 1:
            yield Finding(
                severity=Severity.WARNING,
                code="CapacityDuplicate",
                object=f"StorageClass {those[0].item.storage_class_name}",
                problem=f"{len(those)} CSIStorageCapacity objects describe the same segment "
                f"{segment_text(those[0].item.node_topology)}: the scheduler uses the largest, and in-flight volumes "
                "are "
                "subtracted from each.",
                evidence=tuple(each.text for each in those[:MAX_LISTED]),
                fix="run one capacity publisher per driver and segment, with the same identity after an upgrade; "
                "delete the "
                "objects of the other one",
                affected=len(those),
            )
