"""What is remembered between questions is never stale: after every event the answer is that of a library that has just
been told everything. The events are those of the invalidation table of predicate caching: claims, volumes and classes
that come, change and go; and nodes, capacity, drivers and volumes in flight besides.
"""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from mooring.api import well_known
from mooring.api.views.storage import Claim, CsiDriver, StorageCapacity, StorageClass, Volume
from mooring.volumes.binding import PodClaims
from mooring.volumes.state import VolumeState
from mooring.volumes.topology import TopologyIndex
from support.builders import a_capacity, a_claim, a_class, a_driver, a_pod, a_volume, claim_ref, reachable_from
from support.builders.drivers import DRIVER

NODES = ("n1", "n2", "n3")
SIZES = st.sampled_from(("1Gi", "5Gi", "9Gi"))
CLAIMS = st.sampled_from(("a", "b"))
VOLUMES = st.sampled_from(("v", "w", "x"))
#: The first has volumes created by an administrator, the others are one driver's.
CLASSES = st.sampled_from(("late", "made", "sister"))
MADE = st.sampled_from(("made", "sister"))


class World:
    """A library with its own idea of the nodes."""

    def __init__(self) -> None:
        self.topology = TopologyIndex()
        self.state = VolumeState(self.topology)

    def answers(self) -> dict[str, object]:
        """What it says about pods with one and with both claims, by node names."""
        said: dict[str, object] = {}
        for expected in (("a",), ("b",), ("a", "b")):
            claims = self.state.claims_of(a_pod(claims=expected))
            said["+".join(expected)] = self._about(claims) if isinstance(claims, PodClaims) else claims
        return said

    def _about(self, claims: PodClaims) -> object:
        rejections = self.state.rejections(claims)
        rejected = {reason: frozenset(self.topology.names(nodes)) for nodes, reason in rejections}
        matches = {
            node: [(c.name, None if v is None else v.name) for c, v in self.state.matches(claims, node)]
            for node in sorted(self.topology.names(self.topology.all))
        }
        return rejected, matches


class Histories(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.old = World()
        self.nodes: dict[str, dict[str, str]] = {}
        self.claims: dict[str, Claim] = {}
        self.volumes: dict[str, Volume] = {}
        self.classes: dict[str, StorageClass] = {}
        self.drivers: dict[str, CsiDriver] = {}
        self.segments: dict[str, StorageCapacity] = {}
        self.version = 0

    @initialize(begun=st.booleans())
    def begin(self, begun: bool) -> None:
        """From nothing, or amid what takes many steps to come about: a volume in flight where two classes share."""
        if not begun:
            return
        self.put_driver(tracks=True)
        self.put_node("n1", "z")
        for name, segment in (("made", "r"), ("sister", "s")):
            self.put_class(name, "WaitForFirstConsumer", zonal=False, notes={})
            self.put_segment(segment, "n1", "9Gi", storage_class=name, largest="9Gi")
        self.put_claim("a", "5Gi", storage_class="sister", medium=None)
        self.put_claim_in_flight("5Gi", storage_class="made", node="n1")

    def next_version(self) -> str:
        self.version += 1
        return str(self.version)

    @rule(name=CLAIMS, size=SIZES, storage_class=CLASSES, medium=st.sampled_from((None, "ssd")))
    def put_claim(self, name: str, size: str, storage_class: str, medium: str | None) -> None:
        selector = None if medium is None else {"matchLabels": {"medium": medium}}
        after = a_claim(
            name=name,
            size=size,
            storage_class=storage_class,
            selector=selector,
            version=self.next_version(),
        )
        self.old.state.observe_claim(self.claims.get(name), after)
        self.claims[name] = after

    @rule(size=SIZES, storage_class=MADE, node=st.sampled_from((*NODES, None)))
    def put_claim_in_flight(self, size: str, storage_class: str, node: str | None) -> None:
        """Another pod's, whose volume is being made for a node, or is not any more."""
        version = self.next_version()
        after = a_claim(
            name="flying",
            size=size,
            storage_class=storage_class,
            selected_node=node,
            uid="f-" + storage_class,
            version=version,
        )
        self.old.state.observe_claim(self.claims.get("flying"), after)
        self.claims["flying"] = after

    @rule(name=CLAIMS | st.just("flying"))
    def delete_claim(self, name: str) -> None:
        if name in self.claims:
            self.old.state.observe_claim(self.claims.pop(name), None)

    @rule(
        name=VOLUMES,
        size=SIZES,
        place=st.sampled_from((*NODES, "zone", None)),
        medium=st.sampled_from(("ssd", "hdd")),
        taken=st.sampled_from((None, None, "a", "other")),
    )
    def put_volume(self, name: str, size: str, place: str | None, medium: str, taken: str | None) -> None:
        affinity = None
        if place is not None:
            affinity = (
                reachable_from(well_known.ZONE, "z") if place == "zone" else reachable_from(well_known.HOSTNAME, place)
            )
        after = a_volume(
            name=name,
            size=size,
            storage_class="late",
            affinity=affinity,
            labels={"medium": medium},
            claim_ref=None if taken is None else claim_ref(name=taken),
            version=self.next_version(),
        )
        self.old.state.observe_volume(self.volumes.get(name), after)
        self.volumes[name] = after

    @rule(name=VOLUMES)
    def delete_volume(self, name: str) -> None:
        if name in self.volumes:
            self.old.state.observe_volume(self.volumes.pop(name), None)

    @rule(
        name=CLASSES,
        mode=st.sampled_from(("WaitForFirstConsumer", "WaitForFirstConsumer", "Immediate")),
        zonal=st.booleans(),
        notes=st.dictionaries(
            st.sampled_from((well_known.CAPACITY_POOL, well_known.CAPACITY_USE)),
            st.sampled_from(("additive", "independent")),
        ),
    )
    def put_class(self, name: str, mode: str, zonal: bool, notes: dict[str, str]) -> None:
        after = a_class(
            name=name,
            provisioner=well_known.NO_PROVISIONER if name == "late" else DRIVER,
            binding_mode=mode,
            allowed_topologies=[{well_known.ZONE: ["z"]}] if zonal else [],
            annotations=notes,
            version=self.next_version(),
        )
        self.old.state.observe_class(self.classes.get(name), after)
        self.classes[name] = after

    @rule(name=CLASSES)
    def delete_class(self, name: str) -> None:
        if name in self.classes:
            self.old.state.observe_class(self.classes.pop(name), None)

    @rule(tracks=st.booleans())
    def put_driver(self, tracks: bool) -> None:
        after = a_driver(tracks_capacity=tracks, version=self.next_version())
        self.old.state.observe_driver(self.drivers.get(DRIVER), after)
        self.drivers[DRIVER] = after

    @rule(
        name=st.sampled_from("rs"),
        node=st.sampled_from((*NODES, None)),
        size=SIZES,
        storage_class=MADE,
        largest=st.sampled_from((None, "9Gi")),
    )
    def put_segment(self, name: str, node: str | None, size: str, storage_class: str, largest: str | None) -> None:
        topology = {} if node is None else {"matchLabels": {well_known.HOSTNAME: node}}
        after = a_capacity(
            name=name,
            topology=topology,
            capacity=size,
            storage_class=storage_class,
            largest=largest,
            version=self.next_version(),
        )
        self.old.state.observe_capacity(self.segments.get(name), after)
        self.segments[name] = after

    @rule(name=st.sampled_from("rs"))
    def delete_segment(self, name: str) -> None:
        if name in self.segments:
            self.old.state.observe_capacity(self.segments.pop(name), None)

    @rule(name=st.sampled_from(NODES), zone=st.sampled_from(("z", "y", "")))
    def put_node(self, name: str, zone: str) -> None:
        self.nodes[name] = {well_known.HOSTNAME: name} | ({well_known.ZONE: zone} if zone else {})
        self.old.topology.put(name, self.nodes[name])

    @rule(name=st.sampled_from(NODES))
    def delete_node(self, name: str) -> None:
        if self.nodes.pop(name, None) is not None:
            self.old.topology.remove(name)

    @invariant()
    def says_what_a_new_one_would_say(self) -> None:
        new = World()
        for name, labels in self.nodes.items():
            new.topology.put(name, labels)
        for storage_class in self.classes.values():
            new.state.observe_class(None, storage_class)
        for volume in self.volumes.values():
            new.state.observe_volume(None, volume)
        for claim in self.claims.values():
            new.state.observe_claim(None, claim)
        for driver in self.drivers.values():
            new.state.observe_driver(None, driver)
        for segment in self.segments.values():
            new.state.observe_capacity(None, segment)
        assert self.old.answers() == new.answers()


Histories.TestCase.settings = settings(max_examples=60, stateful_step_count=30)
TestHistories = pytest.mark.req("T27.never-stale")(pytest.mark.level("u")(Histories.TestCase))
