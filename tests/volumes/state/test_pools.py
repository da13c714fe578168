"""A driver with a pool per node, a slow publisher, a provisioner that may fail, a scheduler that restarts: what is sent
to a node finds room there, in whichever order everything happens.
"""

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from mooring.api import well_known
from mooring.api.times import to_micro_time
from mooring.api.views.storage import Claim, StorageCapacity, StorageClass, Volume
from mooring.volumes.binding import PodClaims
from mooring.volumes.state import VolumeState
from mooring.volumes.topology import TopologyIndex
from support.builders import a_claim, a_pod, a_volume, claim_ref, reachable_from
from volumes.test_charges import CLASS, SISTER, TRACKED, segment

pytestmark = [pytest.mark.level("u")]

POOL = 10


class Pools(RuleBasedStateMachine):
    """A driver with a pool per node, a publisher that is slow, a provisioner that may fail, a scheduler that restarts.

    Whatever happens in whichever order, a volume that was sent to a node finds room there.
    """

    def __init__(self) -> None:
        super().__init__()
        self.now = 0
        self.claims: dict[str, Claim] = {}
        self.volumes: dict[str, Volume] = {}
        self.segments: dict[str, StorageCapacity] = {}
        self.used = {"n1": 0, "n2": 0}
        #: By node, what the driver answered and when it was asked; not published yet.
        self.answers: dict[str, tuple[int, int]] = {}
        self.start()
        for thing in (CLASS, SISTER):
            self.state.observe_class(None, thing)
        for node in self.used:
            self.answers[node] = (POOL, 0)
            self.publish(node)

    def start(self) -> None:
        topology = TopologyIndex()
        self.state = VolumeState(topology)
        for node in ("n1", "n2"):
            topology.put(node, {well_known.HOSTNAME: node})
        self.state.observe_driver(None, TRACKED[0])

    def tick(self) -> int:
        self.now += 1
        return self.now

    @rule(sizes=st.lists(st.tuples(st.integers(1, 6), st.sampled_from(("made", "sister"))), min_size=1, max_size=3))
    def pod(self, sizes: list[tuple[int, str]]) -> None:
        names = []
        for size, storage_class in sizes:
            name = f"c{self.tick()}"
            claim = self.claims[name] = a_claim(
                name=name, size=size, storage_class=storage_class, version=str(self.now)
            )
            self.state.observe_claim(None, claim)
            names.append(name)
        claims = self.state.claims_of(a_pod(claims=names))
        assert isinstance(claims, PodClaims)
        left = 3
        for nodes, _ in self.state.rejections(claims):
            left &= ~nodes
        if not left:
            return
        node = "n1" if left & 1 else "n2"
        promised = self.state.assume(self.state.plan(claims, node))
        for provisioning in promised.provision:
            self.write(provisioning.claim, selected_node=node)

    def write(self, claim: Claim, **changed: object) -> None:
        before = self.claims[claim.name]
        size, storage_class = int(before.request), before.storage_class
        after = a_claim(name=claim.name, size=size, storage_class=storage_class, version=str(self.tick()), **changed)
        self.claims[claim.name] = after
        self.state.observe_claim(before, after)

    def in_flight(self) -> list[Claim]:
        return [claim for claim in self.claims.values() if claim.selected_node and not claim.spec.volume_name]

    @precondition(lambda self: self.in_flight())
    @rule(data=st.data(), claim_first=st.booleans())
    def create(self, data: st.DataObject, claim_first: bool) -> None:
        claim = data.draw(st.sampled_from(self.in_flight()))
        node, size = claim.selected_node or "", int(claim.request)
        self.used[node] += size
        assert self.used[node] <= POOL, "CreateVolume failed for want of room"
        volume = a_volume(
            name=f"v-{claim.name}",
            size=size,
            storage_class=claim.storage_class,
            affinity=reachable_from(well_known.HOSTNAME, node),
            claim_ref=claim_ref(name=claim.name, uid=claim.uid),
            annotations={well_known.VOLUME_CREATED_AT: to_micro_time(self.tick())},
            phase="Bound",
        )
        self.volumes[volume.name] = volume
        if claim_first:
            self.write(claim, selected_node=node, volume=volume.name, bound=True)
        self.state.observe_volume(None, volume)
        if not claim_first:
            self.write(claim, selected_node=node, volume=volume.name, bound=True)

    @precondition(lambda self: self.in_flight())
    @rule(data=st.data())
    def give_up(self, data: st.DataObject) -> None:
        self.write(data.draw(st.sampled_from(self.in_flight())))

    @rule(node=st.sampled_from(("n1", "n2")))
    def ask(self, node: str) -> None:
        self.answers.setdefault(node, (POOL - self.used[node], self.tick()))

    @precondition(lambda self: self.answers)
    @rule(data=st.data())
    def answer(self, data: st.DataObject) -> None:
        self.publish(data.draw(st.sampled_from(sorted(self.answers))))

    def publish(self, node: str) -> None:
        left, asked = self.answers.pop(node)
        for storage_class in ("made", "sister"):
            # As drivers should: no volume can be larger than what there is.
            now = segment(node, left, of=storage_class, polled=float(asked), largest=str(left))
            before = self.segments.get(now.key)
            self.segments[now.key] = now
            self.state.observe_capacity(before, now)

    @precondition(lambda self: self.volumes)
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        volume = self.volumes.pop(data.draw(st.sampled_from(sorted(self.volumes))))
        node = "n1" if "n1" in repr(volume.required_affinity) else "n2"
        self.used[node] -= int(volume.size)
        self.state.observe_volume(volume, None)

    @rule(random=st.randoms(use_true_random=False))
    def restart(self, random: object) -> None:
        self.start()
        things = [CLASS, SISTER, *self.claims.values(), *self.volumes.values(), *self.segments.values()]
        random.shuffle(things)  # type: ignore[attr-defined]
        for thing in things:
            match thing:
                case Claim():
                    self.state.observe_claim(None, thing)
                case Volume():
                    self.state.observe_volume(None, thing)
                case StorageCapacity():
                    self.state.observe_capacity(None, thing)
                case _:
                    self.state.observe_class(None, thing)

    @rule(storage_class=st.sampled_from((CLASS, SISTER)))
    def replace_class(self, storage_class: StorageClass) -> None:
        """As people do who want other parameters: most fields cannot be changed."""
        self.state.observe_class(storage_class, None)
        self.state.observe_class(None, storage_class)

    @rule(storage_class=st.sampled_from((CLASS, SISTER)))
    def move_class(self, storage_class: StorageClass) -> None:
        """An administrator gives it a pool of its own, and takes it back."""
        named = msgspec.structs.replace(storage_class.metadata, annotations={well_known.CAPACITY_POOL: "another"})
        elsewhere = msgspec.structs.replace(storage_class, metadata=named)
        self.state.observe_class(storage_class, elsewhere)
        self.state.observe_class(elsewhere, storage_class)

    @invariant()
    def nothing_in_flight_is_more_than_the_pool(self) -> None:
        for node, used in self.used.items():
            coming = sum(int(claim.request) for claim in self.in_flight() if claim.selected_node == node)
            assert used + coming <= POOL


Pools.TestCase.settings = settings(max_examples=60, stateful_step_count=30)
test_pools = pytest.mark.req("C16.exact-fit", "C16.together", "C16.in-flight", "C16.end")(Pools.TestCase)
