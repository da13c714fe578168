"""The brute-force judge: small worlds whose answer is plain to see."""

from collections.abc import Sequence

import pytest

from builders import a_claim, a_node, a_pod, a_volume, claim_ref
from mooring.api.views.claim import Claim
from mooring.api.views.volume import Volume
from mooring.sim.facts import Facts
from mooring.sim.feasibility import places_for


def places(claims: Sequence[Claim], volumes: Sequence[Volume], *, wanted: Sequence[str] = ("a", "b")) -> list[str]:
    facts = Facts()
    facts.nodes = {name: a_node(name=name) for name in ("node-1", "node-2")}
    facts.claims = {claim.key: claim for claim in claims}
    facts.volumes = {volume.key: volume for volume in volumes}
    return places_for(a_pod(claims=wanted), facts)


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
