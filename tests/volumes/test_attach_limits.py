"""After any history of pods, claims, volumes, attachments and nodes, what is left of a limit is what a count says."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from mooring.api.views.pods import Pod
from mooring.api.views.storage import Claim, CsiNode, Volume, VolumeAttachment
from mooring.volumes.attach_limits import UNLIMITED
from mooring.volumes.state import VolumeState
from mooring.volumes.topology import TopologyIndex
from support.builders import a_claim, a_class, a_csi_node, a_pod, a_volume, an_attachment, claim_ref
from support.builders.drivers import DRIVER

LIMITED = a_csi_node(name="n1", limits={DRIVER: 1})
USER = a_pod(name="user", claims=["c"])


def left(state: VolumeState) -> int:
    return int(state.limits.left(DRIVER)[0])


def one_node(*, claim: Claim) -> VolumeState:
    """One node that takes one volume, and a pod there that uses the claim."""
    topology = TopologyIndex()
    state = VolumeState(topology)
    topology.put("n1", {})
    state.observe_csi_node(None, LIMITED)
    state.observe_claim(None, claim)
    state.add_pod(USER, "n1")
    return state


@pytest.mark.req("T47.limits")
@pytest.mark.parametrize(
    ("limit", "others", "attached", "exceeded"),
    [
        pytest.param(1, (), False, "", id="it fits"),
        pytest.param(0, (), False, DRIVER, id="the limit was lowered"),
        pytest.param(None, (), False, "", id="there is no limit any more"),
        pytest.param(1, ("d",), False, DRIVER, id="another pod came"),
        pytest.param(1, ("d", "c"), False, "", id="another pod uses the same volume there"),
        pytest.param(0, (), True, "", id="it is attached already"),
    ],
)
def test_whether_a_pod_that_came_has_one_volume_too_many(
    limit: int | None, others: tuple[str, ...], attached: bool, exceeded: str
) -> None:
    state = one_node(claim=a_claim(name="c", storage_class="made", volume="v", bound=True))
    state.observe_class(None, a_class(name="made", provisioner=DRIVER))
    state.observe_claim(None, a_claim(name="d", storage_class="made"))
    csi = {"csi": {"driver": DRIVER, "volumeHandle": "v"}}
    state.observe_volume(None, a_volume(name="v", source=csi, claim_ref=claim_ref(name="c")))
    state.observe_csi_node(LIMITED, a_csi_node(name="n1", limits={DRIVER: limit}))
    for name in others:
        state.add_pod(a_pod(name=f"with-{name}", claims=[name]), "n1")
    if attached:
        state.observe_attachment(None, an_attachment(volume="v", node="n1"))

    assert state.driver_over_limit(USER, "n1") == exceeded


@pytest.mark.req("T23.to-be-provisioned")
def test_a_class_that_appears_says_what_its_claims_will_be() -> None:
    state = one_node(claim=a_claim(name="c", storage_class="made"))
    assert left(state) == 1

    state.observe_class(None, a_class(name="made", provisioner=DRIVER))

    assert left(state) == 0


@pytest.mark.req("T23.assumed")
def test_what_is_promised_to_a_claim_counts_wherever_it_is_used() -> None:
    """Two pods share a claim; one was put on its node by hand before the claim had a volume."""
    state = one_node(claim=a_claim(name="c", storage_class="late"))
    state.observe_class(None, a_class(name="late"))
    state.observe_volume(None, a_volume(name="v", storage_class="late", source={"csi": {"driver": DRIVER}}))
    claims = state.claims_of(a_pod(name="other", claims=["c"]))
    assert not isinstance(claims, str)
    assert left(state) == 1

    promised = state.assume(state.plan(claims, "n1"))
    assert left(state) == 0

    state.restore(promised)
    assert left(state) == 1


NODES = ("n1", "n2", "n3")
CLAIMS = ("c1", "c2", "c3")
VOLUMES = ("v1", "v2")
HANDLES = ("h1", "h2")


def a_driver_volume(name: str, handle: str, claim: str | None, version: int) -> Volume:
    reference = None if claim is None else claim_ref(name=claim, uid=f"{claim}-uid")
    source = {"csi": {"driver": DRIVER, "volumeHandle": handle}}
    return a_volume(name=name, source=source, claim_ref=reference, version=str(version), storage_class="made")


class Histories(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.topology = TopologyIndex()
        self.state = VolumeState(self.topology)
        self.state.observe_class(None, a_class(name="made", provisioner=DRIVER))
        self.pods: dict[str, tuple[Pod, str]] = {}
        self.claims: dict[str, Claim] = {}
        self.volumes: dict[str, Volume] = {}
        self.attachments: dict[str, VolumeAttachment] = {}
        self.csi_nodes: dict[str, CsiNode] = {}
        self.version = 1

    @rule(name=st.sampled_from(NODES), there=st.booleans())
    def node(self, name: str, there: bool) -> None:
        if there:
            self.topology.put(name, {"name": name})
        else:
            self.topology.remove(name)

    @rule(name=st.sampled_from(NODES), limit=st.none() | st.integers(0, 3), there=st.booleans())
    def csi_node(self, name: str, limit: int | None, there: bool) -> None:
        now = a_csi_node(name=name, limits={DRIVER: limit}) if there else None
        before = self.csi_nodes.pop(name, None)
        if before is not None or now is not None:
            self.state.observe_csi_node(before, now)
        if now is not None:
            self.csi_nodes[name] = now

    @rule(name=st.sampled_from("pqr"), node=st.sampled_from(NODES), claims=st.sets(st.sampled_from(CLAIMS)))
    def pod_moves(self, name: str, node: str, claims: set[str]) -> None:
        self.pod_leaves(name)
        pod = a_pod(name=name, claims=sorted(claims))
        self.state.add_pod(pod, node)
        self.pods[name] = (pod, node)

    @rule(name=st.sampled_from("pqr"))
    def pod_leaves(self, name: str) -> None:
        known = self.pods.pop(name, None)
        if known is not None:
            self.state.remove_pod(*known)

    @rule(name=st.sampled_from(CLAIMS), volume=st.sampled_from(("", *VOLUMES)), there=st.booleans())
    def claim(self, name: str, volume: str, there: bool) -> None:
        self.version += 1
        now = a_claim(name=name, volume=volume, storage_class="made", version=str(self.version)) if there else None
        before = self.claims.pop(name, None)
        if before is not None or now is not None:
            self.state.observe_claim(before, now)
        if now is not None:
            self.claims[name] = now

    @rule(name=st.sampled_from(VOLUMES), handle=st.sampled_from(HANDLES), claim=st.sampled_from((None, *CLAIMS)))
    def volume_comes_or_changes(self, name: str, handle: str, claim: str | None) -> None:
        self.version += 1
        now = a_driver_volume(name, handle, claim, self.version)
        self.state.observe_volume(self.volumes.get(name), now)
        self.volumes[name] = now
        self.controller_catches_up()

    @rule(name=st.sampled_from(VOLUMES))
    def volume_goes(self, name: str) -> None:
        before = self.volumes.pop(name, None)
        if before is not None:
            self.state.observe_volume(before, None)
            self.controller_catches_up()

    @rule(name=st.sampled_from("xy"), volume=st.sampled_from(VOLUMES), node=st.sampled_from(NODES), there=st.booleans())
    def attachment(self, name: str, volume: str, node: str, there: bool) -> None:
        now = an_attachment(name=name, volume=volume, node=node) if there else None
        before = self.attachments.pop(name, None)
        if before is not None or now is not None:
            self.state.observe_attachment(before, now)
        if now is not None:
            self.attachments[name] = now

    def controller_catches_up(self) -> None:
        """Claims and volumes that name each other one way only are on their way to do so both ways, or to part: the
        claim is seen once more, as its controller would write it."""
        for name, claim in list(self.claims.items()):
            self.version += 1
            again = a_claim(name=name, volume=claim.spec.volume_name, storage_class="made", version=str(self.version))
            self.state.observe_claim(claim, again)
            self.claims[name] = again

    @invariant()
    def what_is_left_is_what_a_count_says(self) -> None:
        limits = self.state.limits
        for name in NODES:
            if name in self.topology:
                limit = self.limit(name)
                left = limits.left(DRIVER)[self.topology.slot(name)]
                assert left == (UNLIMITED if limit is None else limit - len(self.on(name)))

    def limit(self, node: str) -> int | None:
        csi_node = self.csi_nodes.get(node)
        if csi_node is None or not csi_node.spec.drivers:
            return None
        allocatable = csi_node.spec.drivers[0].allocatable
        return None if allocatable is None else allocatable.count

    def on(self, node: str) -> set[str]:
        """The handles on a node, and the claims still to be served there."""
        claims = {name for pod, where in self.pods.values() if where == node for name in pod.claim_keys}
        found = {self.stands_for(self.claims[key.partition("/")[2]]) for key in claims if key[8:] in self.claims}
        for attachment in self.attachments.values():
            volume = self.volumes.get(attachment.spec.source.persistent_volume_name)
            if attachment.spec.node_name == node and volume is not None and volume.spec.csi is not None:
                found.add(volume.spec.csi.volume_handle)
        return found

    def stands_for(self, claim: Claim) -> str:
        named = self.volumes.get(claim.spec.volume_name)
        if named is None and not claim.spec.volume_name:
            given = sorted(
                v.name for v in self.volumes.values() if v.spec.claim_ref and v.spec.claim_ref.name == claim.name
            )
            named = self.volumes[given[0]] if given else None
        return f"claim {claim.name}" if named is None or named.spec.csi is None else named.spec.csi.volume_handle


TestHistories = pytest.mark.req("T23.counted")(pytest.mark.level("u")(Histories.TestCase))
TestHistories.settings = settings(max_examples=40, stateful_step_count=20)
