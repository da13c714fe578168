"""The brute-force feasibility check, on small clusters with an obvious result."""

from collections.abc import Sequence

import pytest

from mooring.api import well_known
from mooring.api.views.storage import Claim, StorageClass, Volume
from support.builders import a_claim, a_class, a_node, a_pod, a_volume, claim_ref
from support.simulation.convergence import feasible_nodes, stand_ins_can_provision
from support.simulation.invariants import Facts


def places(
    claims: Sequence[Claim],
    volumes: Sequence[Volume],
    *,
    expected: Sequence[str] = ("a", "b"),
    classes: Sequence[StorageClass] = (),
) -> list[str]:
    facts = Facts()
    facts.nodes = {
        name: a_node(name=name, labels={well_known.HOSTNAME: name, well_known.ZONE: zone})
        for name, zone in (("node-1", "zone-a"), ("node-2", "zone-b"))
    }
    facts.classes = {one.name: one for one in classes}
    facts.claims = {claim.key: claim for claim in claims}
    facts.volumes = {volume.key: volume for volume in volumes}
    return feasible_nodes(a_pod(claims=expected), facts, stand_ins_can_provision)


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
def test_every_claim_needs_its_own_volume_on_the_node(
    claims: list[Claim], volumes: list[Volume], expected: list[str]
) -> None:
    assert places(claims, volumes) == expected


def test_bound_claim_determines_the_node() -> None:
    bound = a_claim(name="a", volume="x", bound=True, phase="Bound")
    taken = a_volume(name="x", node="node-2", claim_ref=claim_ref(name="a", uid="a-uid"), phase="Bound")
    assert places([bound], [taken, free("y", "node-1")], expected=("a",)) == ["node-2"]


def test_reserved_volume_matches_only_its_claim() -> None:
    theirs = a_volume(name="x", node="node-1", claim_ref=claim_ref(name="other"))
    ours = a_volume(name="y", node="node-2", claim_ref=claim_ref(name="a"))
    assert places([SMALL], [theirs, ours], expected=("a",)) == ["node-2"]


ANYWHERE = a_class(name="made", provisioner="zonal.standins.mooring.dev")
MADE = a_claim(name="b", storage_class="made")


@pytest.mark.parametrize(
    ("made", "storage_class", "volumes", "expected"),
    [
        pytest.param(MADE, ANYWHERE, [free("x", "node-2")], ["node-2"], id="provisioned where the other claim matches"),
        pytest.param(MADE, ANYWHERE, [], [], id="nothing for the other claim"),
        pytest.param(
            MADE,
            a_class(
                name="made",
                provisioner="zonal.standins.mooring.dev",
                allowed_topologies=[{well_known.ZONE: ["zone-a"]}],
            ),
            [free("x", "node-1"), free("y", "node-2")],
            ["node-1"],
            id="provisioned in allowed topologies only",
        ),
        pytest.param(
            MADE,
            a_class(name="made", provisioner="disks.example.com"),
            [free("x", "node-1")],
            [],
            id="missing provisioner",
        ),
        pytest.param(
            MADE,
            a_class(name="made", provisioner="zonal.standins.mooring.dev", binding_mode="Immediate"),
            [free("x", "node-1")],
            [],
            id="Immediate, not provisioned yet",
        ),
        pytest.param(
            a_claim(name="b", storage_class="made", selected_node="node-2"),
            ANYWHERE,
            [free("x", "node-1"), free("y", "node-2")],
            ["node-2"],
            id="selected node",
        ),
        pytest.param(
            MADE,
            a_class(name="made", provisioner="regional.standins.mooring.dev"),
            [free("x", "node-1")],
            ["node-1"],
            id="two zones",
        ),
        pytest.param(
            MADE,
            a_class(
                name="made",
                provisioner="regional.standins.mooring.dev",
                allowed_topologies=[{well_known.ZONE: ["zone-a"]}],
            ),
            [free("x", "node-1")],
            [],
            id="two zones, one allowed",
        ),
    ],
)
def test_claim_may_be_provisioned_instead(
    made: Claim, storage_class: StorageClass, volumes: list[Volume], expected: list[str]
) -> None:
    assert places([SMALL, made], volumes, classes=[storage_class]) == expected


def test_claim_with_reserved_volume_is_not_provisioned() -> None:
    leaving = a_volume(name="x", node="node-1", claim_ref=claim_ref(name="b", uid="b-uid"), deleting=True)
    assert places([MADE], [leaving], expected=("b",), classes=[ANYWHERE]) == []
