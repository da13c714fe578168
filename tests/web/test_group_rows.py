"""PodGroups as rows: state, quorum, held volumes and what is missing, from objects alone."""

from typing import Any

import pytest

from mooring.web.groups import NO_MESSAGE, GroupRow
from mooring.web.picture import Picture
from support.builders import a_claim, a_volume
from support.builders.groups import a_member, a_pod_group

REFUSED = {"type": "PodGroupInitiallyScheduled", "status": "False", "reason": "Unschedulable", "message": "too little"}


def held(name: str, claim: str, prefix: str = "hold") -> Any:  # noqa: ANN401
    return a_volume(
        name=name,
        claim_ref={"namespace": "kube-system", "name": f"{prefix}-{claim}-uid"},
        labels={"mooring.dev/group": "g-uid"},
        annotations={"hold.mooring.dev/claim": f"default/{claim}"},
    )


def member(name: str, **more: Any) -> Any:  # noqa: ANN401
    return a_member(name=name, group="g", uid=f"{name}-uid", **more)


def seen(*, group: Any, pods: Any = (), claims: Any = (), volumes: Any = ()) -> Picture:  # noqa: ANN401
    picture = Picture()
    if group is not None:
        picture.observe_group(None, group)
    for claim in claims:
        picture.observe_claim(None, a_claim(name=claim, uid=f"{claim}-uid"))
    for pod in pods:
        picture.observe_pod(None, pod)
    for volume in volumes:
        picture.observe_volume(None, volume, now=0.0)
    return picture


def row(picture: Picture) -> GroupRow:
    picture.changes()
    [found] = picture.all_rows()["groups"]
    assert isinstance(found, GroupRow)
    return found


GANG = a_pod_group(name="g", min_count=2, uid="g-uid")
WAITING = (member("a", claims=("x",)), member("b", claims=("y",)))


@pytest.mark.parametrize(
    ("given", "state", "missing"),
    [
        pytest.param(
            {"group": None, "pods": WAITING},
            "GroupMissing",
            "the PodGroup does not exist, and a, b wait for it",
            id="no PodGroup",
        ),
        pytest.param({"group": GANG}, "WaitingForMembers", "0 of 2 members exist", id="no members"),
        pytest.param(
            {"group": GANG, "pods": WAITING[:1]}, "WaitingForMembers", "1 of 2 members exist", id="too few members"
        ),
        pytest.param({"group": GANG, "pods": WAITING}, "Pending", NO_MESSAGE, id="not tried yet"),
        pytest.param(
            {"group": a_pod_group(name="g", min_count=2, conditions=[REFUSED]), "pods": WAITING},
            "Pending",
            "too little",
            id="refused",
        ),
        pytest.param(
            {"group": GANG, "pods": WAITING, "claims": ("x", "y"), "volumes": (held("v", "x"),)},
            "Holding",
            "the volumes of b",
            id="one volume held",
        ),
        pytest.param(
            {"group": GANG, "pods": WAITING, "claims": ("x", "y"), "volumes": (held("v", "x"), held("w", "y"))},
            "Holding",
            "the commit of all volumes",
            id="all volumes held",
        ),
        pytest.param(
            {"group": GANG, "pods": WAITING, "claims": ("x", "y"), "volumes": (held("v", "x", "rollback"),)},
            "GivingUp",
            "1 held volumes are being rolled back",
            id="rolled back",
        ),
        pytest.param(
            {"group": GANG, "pods": (member("a", node="n"), member("b", node="n"))}, "Committed", "", id="runs"
        ),
        pytest.param(
            {"group": GANG, "pods": (member("a", node="n"), member("b"))}, "BelowQuorum", "nodes for b", id="one left"
        ),
        pytest.param(
            {"group": GANG, "pods": (member("a", node="n"), member("b", node="n"), member("c"))},
            "ExtraWaiting",
            "nodes for c",
            id="one beyond the quorum",
        ),
    ],
)
def test_states(given: dict[str, Any], state: str, missing: str) -> None:
    found = row(seen(**given))
    assert (found.state, found.missing) == (state, missing)


def test_a_row_follows_pods_claims_and_volumes() -> None:
    picture = seen(group=GANG, pods=WAITING, claims=("x", "y"), volumes=(held("v", "x"),))
    assert (row(picture).held, row(picture).needed, row(picture).bound) == (1, 2, 0)
    before = a_claim(name="x", uid="x-uid")
    picture.observe_claim(before, a_claim(name="x", uid="x-uid", volume="v", bound=True))
    assert row(picture).needed == 1
    picture.observe_volume(held("v", "x"), None, now=1.0)
    assert row(picture).held == 0
    picture.observe_pod(WAITING[0], member("a", claims=("x",), node="n"))
    assert row(picture).bound == 1


def test_groups_that_are_gone_are_named() -> None:
    picture = seen(group=GANG, pods=WAITING)
    picture.changes()
    for pod in WAITING:
        picture.observe_pod(pod, None)
    picture.observe_group(GANG, None)
    assert picture.changes().gone["groups"] == ["default/g"]


def test_a_volume_names_the_group_it_is_held_for_whichever_comes_first() -> None:
    picture = seen(group=None, volumes=(held("v", "x"),))
    picture.changes()
    picture.observe_group(None, GANG)
    [volume] = picture.changes().rows["volumes"]
    assert getattr(volume, "group", "") == "default/g"
