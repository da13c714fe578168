"""The zone predicate is never stale: after every event its answer is that of a snapshot that was told everything at
once, and that of the labels themselves.
"""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from mooring.api import well_known
from mooring.api.views.core import Node
from mooring.api.views.storage import Claim, Volume
from mooring.scheduler.plugins.volume_restrictions import WRONG_ZONE, VolumeZone
from mooring.scheduler.snapshot.snapshot import Snapshot
from mooring.volumes.in_tree import in_zone
from support.builders import a_claim, a_node, a_pod, a_volume
from support.scheduler.snapshots import refused, rejected

KEYS = (well_known.ZONE, well_known.ZONE_BETA, well_known.REGION)
#: "y__z" is a disk with a copy in each of two zones.
LABELS = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(("y", "z", "y__z")), max_size=3)
NAMES = st.sampled_from(("a", "b"))
NODES = st.sampled_from(("n1", "n2", "n3"))


class ZoneHistories(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.old = Snapshot()
        self.nodes: dict[str, Node] = {}
        self.volumes: dict[str, Volume] = {}
        self.claims: dict[str, Claim] = {}
        self.version = 0

    def next_version(self) -> str:
        self.version += 1
        return str(self.version)

    @rule(name=NODES, labels=LABELS)
    def put_node(self, name: str, labels: dict[str, str]) -> None:
        after = a_node(name=name, labels=labels, version=self.next_version())
        self.old.observe_node(self.nodes.get(name), after)
        self.nodes[name] = after

    @rule(name=NODES)
    def delete_node(self, name: str) -> None:
        if name in self.nodes:
            self.old.observe_node(self.nodes.pop(name), None)

    @rule(name=NAMES, labels=LABELS)
    def put_volume(self, name: str, labels: dict[str, str]) -> None:
        after = a_volume(name=name, labels=labels, version=self.next_version())
        self.old.volumes.observe_volume(self.volumes.get(name), after)
        self.volumes[name] = after

    @rule(name=NAMES)
    def delete_volume(self, name: str) -> None:
        if name in self.volumes:
            self.old.volumes.observe_volume(self.volumes.pop(name), None)

    @rule(name=NAMES, volume=NAMES)
    def put_claim(self, name: str, volume: str) -> None:
        after = a_claim(name=name, volume=volume, version=self.next_version())
        self.old.volumes.observe_claim(self.claims.get(name), after)
        self.claims[name] = after

    @rule(name=NAMES)
    def delete_claim(self, name: str) -> None:
        if name in self.claims:
            self.old.volumes.observe_claim(self.claims.pop(name), None)

    @invariant()
    def says_what_labels_say(self) -> None:
        new = Snapshot()
        for node in self.nodes.values():
            new.observe_node(None, node)
        for volume in self.volumes.values():
            new.volumes.observe_volume(None, volume)
        for claim in self.claims.values():
            new.volumes.observe_claim(None, claim)
        for claims in (("a",), ("b",), ("a", "b")):
            pod = a_pod(claims=claims)
            reason = refused(VolumeZone(), pod, self.old)
            assert reason == refused(VolumeZone(), pod, new)
            known = all(each in self.claims and self.claims[each].spec.volume_name in self.volumes for each in claims)
            assert known is (reason is None)
            if known:
                answer = rejected(VolumeZone(), pod, self.old)
                assert answer == rejected(VolumeZone(), pod, new) == self.by_labels(claims)

    def by_labels(self, claims: tuple[str, ...]) -> dict[str, set[str]]:
        """Without any index or cache."""
        volumes = [self.volumes[self.claims[each].spec.volume_name] for each in claims]
        wrong = {
            name
            for name, node in self.nodes.items()
            if not all(in_zone(volume, node.metadata.labels) for volume in volumes)
        }
        return {WRONG_ZONE: wrong} if wrong else {}


ZoneHistories.TestCase.settings = settings(max_examples=60, stateful_step_count=25)
TestZoneHistories = pytest.mark.req("T27.zone")(pytest.mark.level("u")(ZoneHistories.TestCase))
