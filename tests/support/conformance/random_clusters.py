"""Small random clusters with pending pods, from a seed, for comparing two schedulers.

Everything is drawn from few values, so that they match often: sizes that just fit, zones of half the nodes, labels that
some selectors name. Plain bodies; `scheduler_pair` creates them and compares the results.
"""

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from mooring.api import well_known
from mooring.api.kinds import (
    CLAIM,
    CSI_DRIVER,
    CSI_NODE,
    DISRUPTION_BUDGET,
    NODE,
    POD,
    STORAGE_CAPACITY,
    STORAGE_CLASS,
    VOLUME,
    Kind,
)
from mooring.api.pod_requirements import RESTART_ALL
from mooring.api.views.meta import ApiObject
from support.builders import (
    Body,
    capacity_body,
    claim_body,
    claim_ref,
    class_body,
    csi_node_body,
    driver_body,
    node_body,
    pod_body,
    reachable_from,
    volume_body,
)
from support.conformance.random_requests import (
    APPS,
    DOMAINS,
    GPU,
    MEDIA,
    ZONES,
    Dice,
    containers,
    inline_disks,
    node_affinity,
    pod_affinity,
    spread,
)

NAMESPACE: Final = "default"
PRIORITIES: Final = (0, 10, 20)
#: A class of high priority without preemption.
LOW_PRIORITY: Final = "humble"

ANYTHING: Final[Body] = {"operator": "Exists"}

NFS: Final[Body] = {"server": "nfs.example.com", "path": "/"}
#: Of one pod.
MAX_CLAIMS: Final = 3


@dataclass(frozen=True)
class Waiting:
    """A pending pod, and the claims that only it uses."""

    pod: Body
    claims: tuple[Body, ...]

    @property
    def name(self) -> str:
        return str(self.pod["metadata"]["name"])


@dataclass
class RandomCluster:
    objects: list[tuple[Kind[ApiObject], Body]] = field(default_factory=list)
    waiting: list[Waiting] = field(default_factory=list)
    #: Volumes reserved for claims of pending pods, by name.
    reserved: list[tuple[Kind[ApiObject], Body]] = field(default_factory=list)
    #: Objects that must not affect ours; kube-scheduler, which they would mislead, does not get them.
    misleading: list[tuple[Kind[ApiObject], Body]] = field(default_factory=list)

    @property
    def residents(self) -> list[Body]:
        """Pods that are scheduled from the beginning."""
        return [body for kind, body in self.objects if kind is POD]


def priority_class(value: int) -> Body:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": _priority_name(value)},
        "value": value,
    }


def _priority_name(value: int) -> str:
    return f"priority-{value}"


class Drawing:
    """Draws one cluster. Cluster-scoped names contain the seed, so that clusters can follow each other quickly."""

    def __init__(self, seed: int, *, waiting: int, nodes: int) -> None:
        self._dice = Dice(seed)
        self._mark = f"s{seed}"
        self._cluster = RandomCluster()
        self._nodes: list[str] = []
        self._late, self._now, self._made, self._tracked = (
            self._named(name) for name in ("late", "now", "made", "tracked")
        )
        self._driver, self._counting = f"{self._mark}.made.example.com", f"{self._mark}.tracked.example.com"
        #: Claims of scheduled pods, which other pods may use too.
        self._shared: list[str] = []
        self._draw_nodes(nodes)
        self._draw_classes()
        self._draw_volumes()
        self._draw_residents()
        for number in range(waiting):
            self._cluster.waiting.append(self._draw_waiting(self._named(f"pod-{number}")))

    @property
    def cluster(self) -> RandomCluster:
        return self._cluster

    def _named(self, name: str) -> str:
        return f"{self._mark}-{name}"

    def _add(self, kind: Kind[ApiObject], body: Body) -> None:
        self._cluster.objects.append((kind, body))

    def _draw_nodes(self, least: int) -> None:
        dice = self._dice
        for number in range(dice.number(least, 5)):
            name = self._named(f"node-{number}")
            self._nodes.append(name)
            labels: dict[str, str] = {}
            if dice.maybe(0.4):
                labels["medium"] = dice.one_of(*MEDIA)
            if dice.maybe(0.5):
                labels["rack"] = str(dice.number(1, 2))
            if dice.maybe(0.3):
                labels["generation"] = str(dice.number(1, 3))
            offers = {
                "cpu": dice.one_of("1", "2", "4"),
                "memory": dice.one_of("1Gi", "4Gi"),
                "pods": dice.one_of("1", "3", "110"),
            }
            if dice.maybe(0.3):
                offers[GPU] = str(dice.number(0, 2))
            taints: list[Body] = []
            if dice.maybe(0.25):
                effect = dice.one_of("NoSchedule", "NoExecute", "PreferNoSchedule")
                taints.append({"key": "dedicated", "value": dice.one_of("db", "web"), "effect": effect})
            zone = dice.one_of(*ZONES) if dice.maybe(0.8) else ""
            cordoned = dice.maybe(0.1)
            self._add(
                NODE,
                node_body(
                    name=name,
                    labels=labels,
                    zone=zone,
                    allocatable=offers,
                    taints=taints,
                    unschedulable=cordoned,
                    features=[RESTART_ALL] if dice.maybe(0.5) else (),
                ),
            )
            if dice.maybe(0.6):
                limits = {self._driver: dice.one_of(0, 1, 2, None), self._counting: dice.one_of(1, 3, None)}
                self._add(CSI_NODE, csi_node_body(name=name, limits=limits))

    def _draw_classes(self) -> None:
        dice = self._dice
        self._add(STORAGE_CLASS, class_body(name=self._late))
        self._add(STORAGE_CLASS, class_body(name=self._now, binding_mode="Immediate"))
        overcommits = dice.maybe(0.5)
        for name, driver in ((self._made, self._driver), (self._tracked, self._counting)):
            topologies = []
            if dice.maybe(0.5):
                topologies.append({well_known.ZONE: dice.some_of(ZONES)})
            if topologies and dice.maybe(0.3):
                topologies.append({well_known.HOSTNAME: [dice.one_of(*self._nodes)]})
            # kube-scheduler checks capacity per claim; ours does if it is not additive.
            notes = {} if overcommits else {well_known.CAPACITY_USE: "independent"}
            self._add(
                STORAGE_CLASS,
                class_body(name=name, provisioner=driver, allowed_topologies=topologies, annotations=notes),
            )
        self._add(CSI_DRIVER, driver_body(name=self._driver, tracks_capacity=False))
        # Volumes of this driver are provisioned, never chosen: ours lets a claim pass that can do without the driver.
        required = dice.maybe(0.3)
        self._add(CSI_DRIVER, driver_body(name=self._counting, tracks_capacity=dice.maybe(0.8), required=required))
        for number in range(dice.number(0, 3)):
            topology: Body | None = dice.one_of(
                None,
                {},
                {"matchLabels": {well_known.ZONE: dice.one_of(*ZONES)}},
                {"matchLabels": {well_known.HOSTNAME: dice.one_of(*self._nodes)}},
                {"matchExpressions": [{"key": well_known.ZONE, "operator": "NotIn", "values": [dice.one_of(*ZONES)]}]},
            )
            # kube-scheduler's scorer crashes on an object with a largest size and without a capacity.
            capacity = dice.one_of("0", "1Gi", "5Gi") if overcommits else dice.one_of("0", "5Gi", "20Gi", None)
            largest = dice.one_of("6Gi", "10Gi") if overcommits else dice.one_of("1Gi", "10Gi", None, None)
            self._add(
                STORAGE_CAPACITY,
                capacity_body(
                    name=self._named(f"capacity-{number}"),
                    storage_class=self._tracked,
                    topology=topology,
                    capacity=capacity,
                    largest=None if capacity is None else largest,
                ),
            )

    def _draw_volumes(self) -> None:
        for number in range(self._dice.number(0, 6)):
            storage_class = self._dice.one_of(self._late, self._late, self._made)
            self._add(VOLUME, self._volume(self._named(f"volume-{number}"), storage_class))
        if self._dice.maybe(0.3):
            self._draw_choice()

    def _draw_choice(self) -> None:
        """A volume of a driver whose limit nodes may have reached. In ours, available volumes count against the limit
        once they are selected: so for every claim of a pod a larger volume without a driver exists.
        """
        own = self._volume(self._named("choice"), self._late)
        own["spec"] |= {"capacity": {"storage": "10Gi"}, "accessModes": ["ReadWriteOnce", "ReadOnlyMany"]}
        for number in range(MAX_CLAIMS):
            name = self._named(f"choice-{number}")
            other = copy.deepcopy(own) | {"metadata": own["metadata"] | {"name": name}}
            other["spec"]["capacity"] = {"storage": "11Gi"}
            self._add(VOLUME, other)
        own["spec"] = {key: value for key, value in own["spec"].items() if key not in ("local", "nfs")}
        own["spec"]["csi"] = {"driver": self._driver, "volumeHandle": self._named("choice")}
        self._add(VOLUME, own)

    def _volume(self, name: str, storage_class: str, reference: Body | None = None) -> Body:
        dice = self._dice
        place = dice.one_of("node", "zone", "zones", "anywhere", "elsewhere")
        affinity: Body | None = None
        if place == "node":
            affinity = reachable_from(well_known.HOSTNAME, dice.one_of(*self._nodes))
        elif place == "zone":
            affinity = reachable_from(well_known.ZONE, dice.one_of(*ZONES))
        elif place == "zones":
            affinity = reachable_from(well_known.ZONE, *dice.some_of(ZONES, 2))
        elif place == "elsewhere":
            affinity = reachable_from(well_known.HOSTNAME, "no-such-node")
        labels = {"medium": dice.one_of(*MEDIA)} if dice.maybe(0.4) else {}
        if dice.maybe(0.1):
            labels[well_known.ZONE] = "__".join(dice.some_of(ZONES))
        # Available volumes of a driver count in ours once they are selected, in kube-scheduler once they are bound.
        source: Body | None = None if affinity is not None else {"nfs": NFS}
        if storage_class == self._made or reference is not None:
            source = {"csi": {"driver": self._driver, "volumeHandle": name}}
        return volume_body(
            name=name,
            size=dice.one_of("1Gi", "5Gi", "5Gi", "20Gi"),
            storage_class=storage_class,
            affinity=affinity,
            access_modes=dice.one_of(("ReadWriteOnce",), ("ReadWriteOnce", "ReadOnlyMany")),
            mode="Block" if dice.maybe(0.1) else "Filesystem",
            claim_ref=reference,
            source=source,
            labels=labels,
        )

    def _draw_residents(self) -> None:
        """Scheduled pods, some with claims."""
        dice = self._dice
        for number in range(dice.number(0, 4)):
            name = self._named(f"resident-{number}")
            claims: list[str] = []
            if dice.maybe(0.5):
                claims.append(self._bound(f"{name}-data", dice.one_of(("ReadWriteOnce",), ("ReadWriteOncePod",))))
                self._shared.append(f"{name}-data")
            foreign = ["scratch"] if dice.maybe(0.2) else []
            if foreign:
                self._draw_foreign(f"{name}-scratch")
            body = pod_body(
                name=name,
                # A node may be deleted before its pods.
                node=dice.one_of(*self._nodes, *self._nodes, self._named("gone")),
                ephemeral=foreign,
                volumes=inline_disks(dice),
                labels={"app": dice.one_of(*APPS)},
                affinity=pod_affinity(dice, anti_only=True) if dice.maybe(0.3) else None,
                claims=claims,
                containers=containers(dice, {"cpu": dice.one_of("100m", "500m", "1")}),
            )
            for volume in body["spec"].get("volumes", ()):
                if "ephemeral" in volume:
                    access_modes = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
                    volume["ephemeral"]["volumeClaimTemplate"]["spec"] = access_modes
            body["spec"]["priorityClassName"] = _priority_name(dice.one_of(*PRIORITIES))
            # Start times differ, so no victim is selected randomly.
            body["status"] = {"phase": "Running", "startTime": f"2026-01-01T00:00:{number:02}Z"}
            self._add(POD, body)
        for number in range(dice.one_of(0, 0, 1)):
            budget = {
                "apiVersion": "policy/v1",
                "kind": "PodDisruptionBudget",
                "metadata": {"name": self._named(f"budget-{number}"), "namespace": NAMESPACE},
                "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": dice.one_of(*APPS)}}},
                "status": {
                    "disruptionsAllowed": dice.number(0, 1),
                    "currentHealthy": 1,
                    "desiredHealthy": 1,
                    "expectedPods": 1,
                },
            }
            self._add(DISRUPTION_BUDGET, budget)

    def _draw_foreign(self, name: str) -> None:
        """The claim of an ephemeral volume, owned by another pod than the one with the volume."""
        pod = {"apiVersion": "v1", "kind": "Pod", "name": "another", "uid": "another-uid", "controller": True}
        volume = self._volume(f"{name}-volume", self._made, claim_ref(name=name, namespace=NAMESPACE))
        self._add(VOLUME, volume)
        claim = claim_body(
            name=name, storage_class=self._made, volume=f"{name}-volume", bound=True, size="1Gi", owners=[pod]
        )
        self._cluster.misleading.append((CLAIM, claim))

    def _bound(self, name: str, access_modes: Sequence[str] = ("ReadWriteOnce",)) -> str:
        """A bound claim and its volume."""
        claim = self._bound_claim(name, access_modes)
        self._add(CLAIM, claim)
        return name

    def _bound_claim(self, name: str, access_modes: Sequence[str] = ("ReadWriteOnce",)) -> Body:
        storage_class = self._dice.one_of(self._late, self._made)
        volume = self._volume(f"{name}-volume", storage_class, claim_ref(name=name, namespace=NAMESPACE))
        volume["spec"]["accessModes"] = list(access_modes)
        self._add(VOLUME, volume)
        return claim_body(
            name=name,
            storage_class=storage_class,
            volume=f"{name}-volume",
            bound=True,
            size="1Gi",
            access_modes=access_modes,
        )

    def _draw_waiting(self, name: str) -> Waiting:
        dice = self._dice
        claims: list[Body] = []
        names: list[str] = []
        for number in range(dice.one_of(0, 0, 1, 1, 2, MAX_CLAIMS)):
            claim = self._claim(f"{name}-{number}")
            names.append(f"{name}-{number}")
            if claim is not None:
                claims.append(claim)
        if self._shared and dice.maybe(0.2):
            names.append(dice.one_of(*self._shared))
        requests = {"cpu": dice.one_of("100m", "500m", "2")} if dice.maybe(0.7) else {}
        if dice.maybe(0.1):
            requests[GPU] = "1"
        if dice.maybe(0.1):
            requests["memory"] = "2Gi"
        affinity: Body = {}
        if dice.maybe(0.25):
            affinity |= node_affinity(dice)
        if dice.maybe(0.35):
            affinity |= pod_affinity(dice)
        tolerations: list[Body] = []
        if dice.maybe(0.3):
            tolerations.append(
                dice.one_of(ANYTHING, {"key": "dedicated", "operator": "Equal", "value": dice.one_of("db", "web")})
            )
        pod = pod_body(
            name=name,
            claims=names,
            labels={"app": dice.one_of(*APPS)},
            containers=containers(dice, requests),
            topology_spread=[spread(dice, key) for key in dice.some_of(DOMAINS)] if dice.maybe(0.3) else (),
            node_selector={"medium": dice.one_of(*MEDIA)} if dice.maybe(0.15) else None,
            affinity=affinity or None,
            tolerations=tolerations,
            volumes=inline_disks(dice),
        )
        pod["spec"]["priorityClassName"] = _priority_name(dice.one_of(*PRIORITIES))
        if dice.maybe(0.1):
            pod["spec"]["priorityClassName"] = LOW_PRIORITY
        if dice.maybe(0.15):
            # Pod-level requests are those of its containers, or more.
            pod["spec"]["resources"] = {"requests": {"cpu": dice.one_of("2", "3"), "memory": dice.one_of("2Gi", "3Gi")}}
        return Waiting(pod, tuple(claims))

    def _claim(self, name: str) -> Body | None:
        """None for a claim that the pod names and that does not exist."""
        dice = self._dice
        sort = dice.one_of(
            *["late"] * 4, *["made"] * 3, *["tracked"] * 3, *["bound"] * 3, "now", "lost", "missing", "odd"
        )
        if sort == "missing":
            return None
        if sort == "bound":
            return self._bound_claim(name)
        if sort == "lost":
            return claim_body(name=name, storage_class=self._late, volume=self._named("no-such-volume"), bound=True)
        classes = {"late": self._late, "made": self._made, "tracked": self._tracked, "now": self._now}
        modes = dice.one_of(("ReadWriteOnce",), ("ReadWriteOnce",), ("ReadOnlyMany",))
        if sort in ("late", "made") and dice.maybe(0.2):
            self._draw_reserved(f"{name}-reserved", classes[sort], name, modes)
        return claim_body(
            name=name,
            storage_class=classes.get(sort, self._named("no-such-class")),
            size=dice.one_of("1Gi", "5Gi", "10Gi"),
            access_modes=modes,
            mode="Block" if dice.maybe(0.1) else "Filesystem",
            selector={"matchLabels": {"medium": dice.one_of(*MEDIA)}} if sort == "late" and dice.maybe(0.2) else None,
            selected_node=dice.one_of(*self._nodes) if sort in ("made", "tracked") and dice.maybe(0.2) else None,
        )

    def _draw_reserved(self, name: str, storage_class: str, claim: str, access_modes: Sequence[str]) -> None:
        """A volume that a user reserved for a claim. The PV controller binds them only if the volume has the claim's
        access modes, which kube-scheduler does not check.
        """
        volume = self._volume(name, storage_class, claim_ref(name=claim, namespace=NAMESPACE))
        volume["spec"]["accessModes"] = [self._dice.one_of("ReadWriteOnce", "ReadOnlyMany")]
        if storage_class == self._late:
            del volume["spec"]["csi"]
            volume["spec"]["nfs"] = NFS
        does = set(access_modes) <= set(volume["spec"]["accessModes"])
        if does and storage_class == self._made:
            # Where it is not accessible, ours still waits for it, and kube-scheduler requests provisioning.
            return
        (self._cluster.reserved if does else self._cluster.misleading).append((VOLUME, volume))


def priority_classes() -> list[Body]:
    humble = priority_class(30) | {"metadata": {"name": LOW_PRIORITY}, "preemptionPolicy": "Never"}
    return [*(priority_class(value) for value in PRIORITIES), humble]


def draw(seed: int, *, waiting: int = 8, nodes: int = 1) -> RandomCluster:
    """`nodes` is the smallest number of nodes, of up to five."""
    return Drawing(seed, waiting=waiting, nodes=nodes).cluster


def draw_volumes(seed: int, *, waiting: int = 8) -> RandomCluster:
    """Five equal nodes, each with volumes and capacity of random sizes: only the scores of volumes differ. Every claim
    can be served on every node that has a volume of the class without a provisioner."""
    dice, mark, cluster = Dice(seed), f"v{seed}", RandomCluster()
    late, driver = f"{mark}-late", f"{mark}.example.com"
    tracked = [f"{mark}-tracked-{number}" for number in range(2)]
    cluster.objects.append((STORAGE_CLASS, class_body(name=late)))
    cluster.objects.append((CSI_DRIVER, driver_body(name=driver, tracks_capacity=True)))
    for name in tracked:
        # kube-scheduler checks capacity per claim.
        alone = {well_known.CAPACITY_USE: "independent"}
        cluster.objects.append((STORAGE_CLASS, class_body(name=name, provisioner=driver, annotations=alone)))
    for number in range(5):
        node = f"{mark}-node-{number}"
        cluster.objects.append((NODE, node_body(name=node)))
        volumes = [late] * dice.number(0, 1) + dice.some_of(tracked, 0)
        for place, storage_class in enumerate(volumes):
            size = f"{dice.number(10, 40)}Gi"
            body = volume_body(name=f"{node}-volume-{place}", node=node, storage_class=storage_class, size=size)
            cluster.objects.append((VOLUME, body))
        for name in tracked:
            capacity = capacity_body(
                name=f"{node}-{name}",
                storage_class=name,
                topology={"matchLabels": {well_known.HOSTNAME: node}},
                capacity=f"{dice.number(11, 120)}Gi",
                largest=dice.one_of(None, "500Gi"),
            )
            cluster.objects.append((STORAGE_CAPACITY, capacity))
    for number in range(waiting):
        name = f"{mark}-pod-{number}"
        classes = [late] * dice.number(0, 1) + [dice.one_of(*tracked) for _ in range(dice.number(1, 2))]
        claims = [
            claim_body(name=f"{name}-{place}", storage_class=storage_class, size=f"{dice.number(1, 10)}Gi")
            for place, storage_class in enumerate(classes)
        ]
        pod = pod_body(name=name, claims=[claim["metadata"]["name"] for claim in claims])
        cluster.waiting.append(Waiting(pod, tuple(claims)))
    return cluster
