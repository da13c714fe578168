"""The brute-force judge: small worlds whose answer is plain to see."""

from collections.abc import Sequence

import pytest

from builders import a_claim, a_class, a_node, a_pod, a_volume, claim_ref
from mooring.api import keys
from mooring.api.views.claim import Claim
from mooring.api.views.storage import StorageClass
from mooring.api.views.volume import Volume
from mooring.sim.facts import Facts
from mooring.sim.feasibility import places_for, stand_ins_make


def places(
    claims: Sequence[Claim],
    volumes: Sequence[Volume],
    *,
    wanted: Sequence[str] = ("a", "b"),
    classes: Sequence[StorageClass] = (),
) -> list[str]:
    facts = Facts()
    facts.nodes = {
        name: a_node(name=name, labels={keys.HOSTNAME: name, keys.ZONE: zone})
        for name, zone in (("node-1", "zone-a"), ("node-2", "zone-b"))
    }
    facts.classes = {one.name: one for one in classes}
    facts.claims = {claim.key: claim for claim in claims}
    facts.volumes = {volume.key: volume for volume in volumes}
    return places_for(a_pod(claims=wanted), facts, stand_ins_make)


def free(name: str, node: str, size: str = "10Gi", **rest: str) -> Volume:
    return a_volume(name=name, node=node, size=size, **rest)


SMALL, LARGE = a_claim(name="a", size="1Gi"), a_claim(name="b", size="20Gi")


@pytest.mark.parametrize(
    ("claims", "volumes", "expected"),
    [
        pytest.param([SMALL, LARGE], [free("x", "node-1"), free("y", "node-1", "20Gi")], ["node-1"], id="enough"),
        pytest.param([LARGE, SMALL], [free("x", "node-1", "20Gi"), free("y", "node-1")], ["node-1"], id="in any order"),
        pytest.param([SMALL, LARGE], [free("x", "node-1"), free("y", "node-2", "20Gi")], [], id="spread over two"),
        pytest.param([SMALL, LARGE], [free("x", "node-1"), free("y", "node-1")], [], id="too small"),
        pytest.param([SMALL], [free("x", "node-1"), free("y", "node-1", "20Gi")], [], id="a claim is missing"),
        pytest.param(
            [SMALL, LARGE],
            [free("x", "node-1"), free("y", "node-1", "20Gi", phase="Released")],
            [],
            id="a volume is used up",
        ),
    ],
)
def test_every_claim_needs_a_volume_of_its_own_on_the_node(
    claims: list[Claim], volumes: list[Volume], expected: list[str]
) -> None:
    assert places(claims, volumes) == expected


def test_a_bound_claim_decides_the_node() -> None:
    bound = a_claim(name="a", volume="x", bound=True, phase="Bound")
    taken = a_volume(name="x", node="node-2", claim_ref=claim_ref(name="a", uid="a-uid"), phase="Bound")
    assert places([bound], [taken, free("y", "node-1")], wanted=("a",)) == ["node-2"]


def test_a_reserved_volume_is_its_claims_alone() -> None:
    theirs = a_volume(name="x", node="node-1", claim_ref=claim_ref(name="other"))
    ours = a_volume(name="y", node="node-2", claim_ref=claim_ref(name="a"))
    assert places([SMALL], [theirs, ours], wanted=("a",)) == ["node-2"]


ANYWHERE = a_class(name="made", provisioner="zonal.standins.mooring.dev")
MADE = a_claim(name="b", storage_class="made")


@pytest.mark.parametrize(
    ("made", "storage_class", "volumes", "expected"),
    [
        pytest.param(MADE, ANYWHERE, [free("x", "node-2")], ["node-2"], id="made where the other claim finds one"),
        pytest.param(MADE, ANYWHERE, [], [], id="nothing for the other claim"),
        pytest.param(
            MADE,
            a_class(
                name="made", provisioner="zonal.standins.mooring.dev", allowed_topologies=[{keys.ZONE: ["zone-a"]}]
            ),
            [free("x", "node-1"), free("y", "node-2")],
            ["node-1"],
            id="made only where the class allows it",
        ),
        pytest.param(
            MADE,
            a_class(name="made", provisioner="disks.example.com"),
            [free("x", "node-1")],
            [],
            id="a provisioner that is not there",
        ),
        pytest.param(
            MADE,
            a_class(name="made", provisioner="zonal.standins.mooring.dev", binding_mode="Immediate"),
            [free("x", "node-1")],
            [],
            id="not made yet, though it should be at once",
        ),
        pytest.param(
            a_claim(name="b", storage_class="made", selected_node="node-2"),
            ANYWHERE,
            [free("x", "node-1"), free("y", "node-2")],
            ["node-2"],
            id="asked for on a node before",
        ),
        pytest.param(
            MADE,
            a_class(name="made", provisioner="regional.standins.mooring.dev"),
            [free("x", "node-1")],
            ["node-1"],
            id="in two zones",
        ),
        pytest.param(
            MADE,
            a_class(
                name="made", provisioner="regional.standins.mooring.dev", allowed_topologies=[{keys.ZONE: ["zone-a"]}]
            ),
            [free("x", "node-1")],
            [],
            id="in two zones, but one is allowed",
        ),
    ],
)
def test_a_claim_may_have_a_volume_made_instead(
    made: Claim, storage_class: StorageClass, volumes: list[Volume], expected: list[str]
) -> None:
    assert places([SMALL, made], volumes, classes=[storage_class]) == expected


def test_a_claim_that_has_a_volume_reserved_gets_no_other_made() -> None:
    leaving = a_volume(name="x", node="node-1", claim_ref=claim_ref(name="b", uid="b-uid"), deleting=True)
    assert places([MADE], [leaving], wanted=("b",), classes=[ANYWHERE]) == []
