"""After any history of volumes, nodes and promises, the index says what a walk over all nodes and volumes says."""

from collections.abc import Iterator, Sequence
from itertools import combinations, count
from unittest.mock import patch

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from mooring.api import well_known
from mooring.api.views.storage import Claim, Volume
from mooring.volumes import columns
from mooring.volumes.binding import BindingPlan, PodClaims
from mooring.volumes.matching import ClaimRequirements, Criterion, exact_size, first_mismatch, is_reserved_for
from mooring.volumes.state import ConflictReason, VolumeState
from mooring.volumes.topology import TopologyIndex
from support.builders import Body, a_claim, a_class, a_pod, a_volume, claim_ref, reachable_from
from support.builders.volume_library import VolumeLibrary


@pytest.fixture(scope="module", autouse=True)
def few_are_four() -> Iterator[None]:
    """So that seven nodes are many: what they reach changes between few and many."""
    with patch.object(columns, "MAX_ROW_NODES", 4):
        yield


NODES = tuple(f"n{number}" for number in range(7))
VOLUMES = tuple(f"v{number}" for number in range(8))
SIZES = ("1", "1500m", "2", "800E")
SSD: Body = {"matchLabels": {"medium": "ssd"}}

#: A claim per way of asking; a pod takes any of them together.
CLAIMS = {
    claim.name: claim
    for claim in (
        a_claim(name="one", size="1"),
        a_claim(name="half", size="1500m"),
        a_claim(name="two", size="2"),
        a_claim(name="huge", size="800E"),
        a_claim(name="many", size="1", access_modes=("ReadWriteMany",)),
        a_claim(name="picky", size="1", selector=SSD),
        a_claim(name="block", size="1", mode="Block"),
        a_claim(name="fast", size="1", storage_class="fast"),
    )
}

labels = st.fixed_dictionaries({}, optional={"zone": st.sampled_from("ab"), "rack": st.sampled_from("12")})
affinities = st.one_of(
    st.none(),
    st.sampled_from(NODES).map(lambda name: reachable_from("name", name)),
    st.sampled_from("ab").map(lambda zone: reachable_from("zone", zone)),
    st.just(reachable_from("rack", "1", "2")),
    st.just({"nodeSelectorTerms": [{"matchExpressions": [{"key": "rack", "operator": "DoesNotExist"}]}]}),
)
references = st.one_of(
    st.sampled_from(sorted(CLAIMS)).map(lambda name: claim_ref(name=name)),
    st.sampled_from(sorted(CLAIMS)).map(lambda name: claim_ref(name=name, uid=f"{name}-uid")),
    st.just(claim_ref(name="one", uid="another")),
)
#: Most volumes are plain, so that claims have something to choose from.
volumes = st.builds(
    lambda size, affinity, medium, odd: {"size": size, "affinity": affinity, "labels": {"medium": medium}} | odd,
    st.sampled_from(SIZES),
    affinities,
    st.sampled_from(("ssd", "hdd")),
    st.one_of(
        st.just({}),
        st.just({}),
        st.just({"access_modes": ("ReadWriteOnce", "ReadWriteMany")}),
        st.sampled_from(({"mode": "Block"}, {"phase": "Released"}, {"storage_class": "fast"})),
        references.map(lambda reference: {"claim_ref": reference}),
    ),
)


class Histories(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.topology = TopologyIndex()
        self.state = VolumeState(self.topology)
        self.nodes: dict[str, dict[str, str]] = {}
        self.observed: dict[str, Volume] = {}
        self.promised: dict[str, Volume] = {}
        self.plans: list[BindingPlan] = []
        self.versions = count(1)
        for storage_class in ("local", "fast"):
            self.state.observe_class(None, a_class(name=storage_class))
        for claim in CLAIMS.values():
            self.state.observe_claim(None, claim)

    @initialize(
        nodes=st.dictionaries(st.sampled_from(NODES), labels, min_size=2),
        volumes=st.dictionaries(st.sampled_from(VOLUMES), volumes, min_size=2),
    )
    def cluster_starts(self, nodes: dict[str, dict[str, str]], volumes: dict[str, Body]) -> None:
        for name, labels in nodes.items():
            self.node_comes_or_changes(name, labels)
        for name, fields in volumes.items():
            self.volume_comes_or_changes(name, fields)

    @rule(name=st.sampled_from(NODES), labels=labels)
    def node_comes_or_changes(self, name: str, labels: dict[str, str]) -> None:
        self.nodes[name] = {"name": name} | labels
        self.topology.put(name, self.nodes[name])

    @rule(name=st.sampled_from(NODES))
    def node_goes(self, name: str) -> None:
        self.nodes.pop(name, None)
        self.topology.remove(name)

    @rule(name=st.sampled_from(VOLUMES), fields=volumes)
    def volume_comes_or_changes(self, name: str, fields: Body) -> None:
        volume = a_volume(name=name, version=str(next(self.versions)), **fields)
        self.state.observe_volume(self.observed.get(name), volume)
        self.observed[name] = volume
        self.promised.pop(name, None)

    @precondition(lambda self: self.observed)
    @rule(data=st.data())
    def volume_goes(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.observed)))
        self.state.observe_volume(self.observed.pop(name), None)
        self.promised.pop(name, None)

    @rule(data=st.data(), names=st.sets(st.sampled_from(sorted(CLAIMS)), min_size=1, max_size=2))
    def pod_is_placed(self, data: st.DataObject, names: set[str]) -> None:
        claims = [CLAIMS[name] for name in sorted(names)]
        feasible = [name for name in sorted(self.nodes) if self.served_on(name, claims) == len(claims)]
        if feasible:
            node = data.draw(st.sampled_from(feasible))
            plan = self.state.assume(self.state.plan(self.pod_claims(names), node))
            self.plans.append(plan)
            for binding in plan.static:
                before = self.volumes[binding.volume.name]
                if binding.volume != before:
                    self.promised[binding.volume.name] = binding.volume

    @precondition(lambda self: self.plans)
    @rule(data=st.data())
    def pod_is_given_up(self, data: st.DataObject) -> None:
        plan = data.draw(st.sampled_from(self.plans))  # perhaps for the second time
        self.state.restore(plan)
        for binding in plan.static:
            if self.promised.get(binding.volume.name) is binding.volume:
                del self.promised[binding.volume.name]

    @rule(names=st.sets(st.sampled_from(sorted(CLAIMS)), min_size=1, max_size=4))
    def some_claims_are_asked_for(self, names: set[str]) -> None:
        self.assert_same_answer(names)

    @invariant()
    def promises_are_as_they_should_be(self) -> None:
        assert {name: self.state.volume(name) for name in VOLUMES} == {name: self.volumes.get(name) for name in VOLUMES}

    def teardown(self) -> None:
        for number in (1, 2, len(CLAIMS)):
            for names in combinations(CLAIMS, number):
                self.assert_same_answer(set(names))

    @property
    def volumes(self) -> dict[str, Volume]:
        return self.observed | self.promised

    def pod_claims(self, names: set[str]) -> PodClaims:
        found = self.state.claims_of(a_pod(claims=sorted(names)))
        assert isinstance(found, PodClaims)
        return found

    def assert_same_answer(self, names: set[str]) -> None:
        claims = [CLAIMS[name] for name in sorted(names)]
        served = {node: self.served_on(node, claims) for node in self.nodes}
        rejected = {node for node, number in served.items() if number < len(claims)}

        asked = self.pod_claims(names)
        said = self.state.rejections(asked)

        assert [reason for _, reason in said] == ([ConflictReason.NO_VOLUME] if rejected else [])
        assert {node for nodes, _ in said for node in self.topology.names(nodes)} == rejected
        for node, number in served.items():
            matches = self.state.matches(asked, node)
            assert sum(volume is not None for _, volume in matches) == number
            self.assert_legal(matches, node)
            if len(claims) == 1:
                fitting = self.volumes_for(claims[0], node)
                smallest = min(fitting, key=lambda volume: (exact_size(volume.size), volume.name), default=None)
                assert matches == [(claims[0], smallest)]

    def assert_legal(self, matches: Sequence[tuple[Claim, Volume | None]], node: str) -> None:
        taken = [volume for _, volume in matches if volume is not None]
        assert len({volume.name for volume in taken}) == len(taken)
        sizes = [exact_size(claim.request) for claim, _ in matches]
        assert sizes == sorted(sizes)
        for claim, volume in matches:
            assert volume is None or first_mismatch(claim, volume, node=self.nodes[node]) is None

    def served_on(self, node: str, claims: Sequence[Claim], taken: frozenset[str] = frozenset()) -> int:
        """How many of the claims can have a volume of their own on the node, trying everything."""
        if not claims:
            return 0
        first, rest = claims[0], claims[1:]
        best = self.served_on(node, rest, taken)
        for volume in self.volumes_for(first, node):
            if volume.name not in taken:
                best = max(best, 1 + self.served_on(node, rest, taken | {volume.name}))
        return best

    def volumes_for(self, claim: Claim, node: str) -> list[Volume]:
        reserved = sorted(
            (v for v in self.volumes.values() if is_reserved_for(v, claim) and first_mismatch(claim, v) is None),
            key=lambda volume: volume.name,
        )[:1]
        usable = reserved or self.volumes.values()
        return [volume for volume in usable if first_mismatch(claim, volume, node=self.nodes[node]) is None]


TestHistories = pytest.mark.req("T29.index", "T30.once", "T13.later-decisions", "T10.feasible", "T9.oracle")(
    pytest.mark.level("u")(Histories.TestCase)
)
TestHistories.settings = settings(max_examples=50, stateful_step_count=12)


@pytest.mark.req("T29.untouched")
@pytest.mark.level("u")
def test_a_decision_looks_into_no_volume_of_other_nodes() -> None:
    nodes = {f"node-{number}": {well_known.HOSTNAME: f"node-{number}"} for number in range(50)}
    volumes = [a_volume(name=f"{node}-{number}", node=node) for node in nodes for number in range(20)]
    library = VolumeLibrary(*volumes, *CLAIMS.values(), nodes=nodes)
    looked_into: set[str] = set()
    why_not_really = ClaimRequirements.first_mismatch

    def first_mismatch_watched(needs: ClaimRequirements, volume: Volume) -> Criterion | None:
        looked_into.add(volume.name)
        return why_not_really(needs, volume)

    with patch.object(ClaimRequirements, "first_mismatch", first_mismatch_watched):
        assert library.rejected("one", "two") == {}
        assert not looked_into
        library.plan("one", "two", node="node-7")

    assert looked_into == {"node-7-0", "node-7-1"}
