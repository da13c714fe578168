"""Volumes per driver and node: Kubernetes' table, and what is counted inside the decision."""

from collections.abc import Iterable, Sequence

import pytest

from mooring.api import well_known
from mooring.api.views.meta import ApiObject
from mooring.api.views.pods import Pod
from mooring.scheduler.plugins.volume_binding import TOO_MANY, NodeVolumeLimits
from support.builders import (
    Body,
    a_claim,
    a_class,
    a_csi_node,
    a_node,
    a_pod,
    a_volume,
    an_attachment,
    claim_ref,
    owned_by,
    pod_body,
)
from support.scheduler.snapshots import a_snapshot, rejected, unresolvable

pytestmark = [pytest.mark.req("T23.counted"), pytest.mark.level("u")]

EBS = "ebs.csi.aws.com"
GCE = "pd.csi.storage.gke.io"
EBS_IN_TREE = "kubernetes.io/aws-ebs"

CLASSES = (
    a_class(name="csi", provisioner=EBS, binding_mode="Immediate"),
    a_class(name="in-tree", provisioner=EBS_IN_TREE, binding_mode="Immediate"),
)


def csi_volume(name: str, driver: str = EBS) -> list[ApiObject]:
    """A claim `name`, bound to a volume of the driver."""
    source = {"csi": {"driver": driver, "volumeHandle": f"vol-{name}"}}
    return bound(name, source)


def in_tree_volume(name: str) -> list[ApiObject]:
    return bound(name, {"awsElasticBlockStore": {"volumeID": f"vol-{name}"}})


def bound(name: str, source: Body) -> list[ApiObject]:
    claim = a_claim(name=name, volume=f"pv-{name}", bound=True, storage_class="csi")
    reference = claim_ref(name=name, uid=f"{name}-uid")
    volume = a_volume(name=f"pv-{name}", storage_class="csi", phase="Bound", claim_ref=reference, source=source)
    return [claim, volume]


def everything(*groups: Iterable[ApiObject]) -> list[ApiObject]:
    return [thing for group in groups for thing in group]


def inline(name: str) -> Body:
    return {"name": f"inline-{name}", "awsElasticBlockStore": {"volumeID": f"vol-{name}"}}


def existing(number: int, *claims: str, **more: object) -> Pod:
    return a_pod(name=f"existing-{number}", node="n1", claims=claims, phase="Running", **more)


def ephemeral_claim(pod: str, volume: str, driver: str = EBS, *, owner: str | None = None) -> list[ApiObject]:
    """The claim of an ephemeral volume, bound, and owned by the pod unless `owner` says otherwise."""
    name = f"{pod}-{volume}"
    owners = [owned_by(pod_body(name=pod), uid=f"{pod}-uid" if owner is None else owner)]
    claim = a_claim(name=name, volume=f"pv-{name}", bound=True, storage_class="csi", owners=owners)
    source = {"csi": {"driver": driver, "volumeHandle": f"vol-{name}"}}
    return [claim, a_volume(name=f"pv-{name}", storage_class="csi", phase="Bound", source=source)]


CSI = everything(*(csi_volume(name) for name in "abcdef"))
IN_TREE = everything(*(in_tree_volume(name) for name in ("ia", "ib", "ic")))
GCE_VOLUMES = everything(*(csi_volume(name, GCE) for name in ("ga", "gb")))
PENDING = [a_claim(name=name, storage_class="csi") for name in ("pending", "pending-2")]
UNKNOWN_VOLUME = a_claim(name="unknown", storage_class="csi", volume="gone")
NO_CLASS = a_claim(name="classless", storage_class=None, volume="gone")
IN_TREE_PENDING = a_claim(name="in-tree-pending", storage_class="in-tree")
CONFIG: list[Body] = [
    {"name": "config", "configMap": {"name": "c"}},
    {"name": "secret", "secret": {"secretName": "s"}},
]
NEW = a_pod(name="new", claims=["a"])


def limited(limit: int | None, *drivers: str) -> list[ApiObject]:
    return [a_csi_node(name="n1", limits=dict.fromkeys(drivers or (EBS,), limit))]


@pytest.mark.parametrize(
    ("pod", "objects", "full"),
    [
        pytest.param(
            NEW,
            [
                *limited(2),
                an_attachment(name="1", driver=EBS, volume="pv-b", node="n1"),
                an_attachment(name="2", driver=EBS, volume="pv-c", node="n1"),
            ],
            True,
            id="two others attached, limit two",
        ),
        pytest.param(
            NEW,
            [
                *limited(2),
                an_attachment(name="1", driver=EBS, volume="pv-a", node="n1"),
                an_attachment(name="2", driver=EBS, volume="pv-b", node="n1"),
            ],
            False,
            id="its own is one of two attached, limit two",
        ),
        pytest.param(
            NEW,
            [*limited(2), an_attachment(driver=EBS, volume="pv-a", node="n1")],
            False,
            id="only its own attached, limit two",
        ),
        pytest.param(
            NEW, [*limited(1), an_attachment(driver=EBS, volume="pv-b", node="n2")], False, id="attached elsewhere"
        ),
        pytest.param(NEW, [*limited(4), existing(1, "b", "c"), existing(2, "d")], False, id="three there, limit four"),
        pytest.param(NEW, [*limited(2), existing(1, "b", "c"), existing(2, "d")], True, id="three there, limit two"),
        pytest.param(NEW, [*limited(None), existing(1, "b", "c"), existing(2, "d")], False, id="no limit reported"),
        pytest.param(NEW, [existing(1, "b", "c"), existing(2, "d")], False, id="nothing reported of the node"),
        pytest.param(
            NEW,
            [*limited(2), existing(1, "pending"), existing(2, "b", "c")],
            True,
            id="what is still to be made counts",
        ),
        pytest.param(
            NEW,
            [*limited(4), existing(1, "pending"), existing(2, "b"), existing(3, "b", "pending")],
            False,
            id="what two pods share counts once",
        ),
        pytest.param(
            NEW,
            [*limited(2), existing(1, "unknown"), existing(2, "b", "c")],
            True,
            id="a claim whose volume is gone counts by its class",
        ),
        pytest.param(
            NEW, [*limited(2), existing(1, "classless"), existing(2, "b")], False, id="without a class it does not"
        ),
        pytest.param(
            NEW, [*limited(2, EBS, GCE), existing(1, "ga", "gb"), existing(2, "b", "c")], True, id="per driver, full"
        ),
        pytest.param(
            a_pod(name="new", claims=["ga", "gb"]),
            [*limited(2, EBS, GCE), existing(1, "b", "c"), existing(2, "d")],
            False,
            id="per driver, the other is full",
        ),
        pytest.param(
            a_pod(name="new", claims=["ia"]),
            [*limited(2), existing(1, "ib"), existing(2, "ic", "ib")],
            True,
            id="disks that a driver took over",
        ),
        pytest.param(a_pod(name="new", volumes=[inline("x")]), [], False, id="inline disk, nothing reported"),
        pytest.param(
            a_pod(name="new", claims=["in-tree-pending"]),
            [*limited(2), existing(1, "ib", "ic")],
            True,
            id="to be made by a provisioner that a driver took over",
        ),
        pytest.param(
            a_pod(name="new", claims=["ia"]),
            [*limited(None), existing(1, "ib", "ic")],
            False,
            id="taken over, no limit",
        ),
        pytest.param(
            a_pod(name="new", claims=["local"]), [*limited(1), existing(1, "b")], False, id="no driver knows the volume"
        ),
        pytest.param(
            a_pod(name="new", volumes=[inline("x")]), [*limited(2), existing(1, "ib", "ic")], True, id="inline disk"
        ),
        pytest.param(
            a_pod(name="new", claims=["ia"]), [*limited(2), existing(1, "b", "c")], True, id="both ways mixed, full"
        ),
        pytest.param(
            a_pod(name="new", volumes=[inline("x")]),
            [*limited(3), existing(1, "b", "c"), existing(2, "ib")],
            True,
            id="all three ways mixed, full",
        ),
        pytest.param(
            a_pod(name="new", volumes=[inline("b")]),
            [*limited(3), existing(1, "b", "c"), existing(2, "ib")],
            False,
            id="an inline disk that is there already",
        ),
        pytest.param(NEW, [*limited(2), existing(1, "ib", "ic")], True, id="both ways mixed, the other way round"),
        pytest.param(
            a_pod(name="new", ephemeral=["e"]),
            [*limited(None), a_claim(name="new-e", storage_class="csi", owners=[owned_by(pod_body(), uid="new-uid")])],
            False,
            id="ephemeral, not made yet, no limit",
        ),
        pytest.param(
            a_pod(name="new", ephemeral=["e"]),
            [*limited(2), existing(1, "b", "c"), existing(2, "d"), *ephemeral_claim("new", "e")],
            True,
            id="ephemeral, full",
        ),
        pytest.param(
            NEW,
            [
                *limited(2),
                existing(1, ephemeral=["e", "f"]),
                *ephemeral_claim("existing-1", "e"),
                *ephemeral_claim("existing-1", "f"),
                existing(2, "b"),
            ],
            True,
            id="ephemeral volumes of others count",
        ),
        pytest.param(
            NEW,
            [*limited(1), existing(1, ephemeral=["e"]), *ephemeral_claim("existing-1", "e", owner="another")],
            False,
            id="unless their claims were made for another pod",
        ),
        *(
            pytest.param(
                NEW,
                [
                    *limited(limit),
                    existing(1, "b"),
                    existing(2, ephemeral=["e"]),
                    *ephemeral_claim("existing-2", "e"),
                    existing(3, "c", "d"),
                ],
                full,
                id=f"one ephemeral and three others, limit {limit}",
            )
            for limit, full in ((3, True), (5, False))
        ),
        pytest.param(a_pod(name="new", volumes=CONFIG), limited(0), False, id="volumes that are none"),
        pytest.param(a_pod(name="new", volumes=CONFIG, claims=["a"]), limited(1), False, id="and a claim"),
        pytest.param(
            a_pod(name="new", volumes=[*CONFIG, inline("x")]),
            [*limited(2), existing(1, "b", "c")],
            True,
            id="and an inline disk",
        ),
        pytest.param(
            a_pod(name="new", claims=["b"]), [*limited(0), existing(1, "b")], False, id="too many, but none is new"
        ),
        pytest.param(
            NEW,
            [*limited(1), a_pod(name="done", node="n1", claims=["b"], phase="Succeeded")],
            False,
            id="pods that ended",
        ),
    ],
)
def test_one_node(pod: Pod, objects: Sequence[ApiObject], full: bool) -> None:
    local = bound("local", {"hostPath": {"path": "/x"}})
    common = [*CLASSES, *CSI, *IN_TREE, *GCE_VOLUMES, *PENDING, UNKNOWN_VOLUME, NO_CLASS, IN_TREE_PENDING, *local]
    snapshot = a_snapshot(a_node(name="n1"), *common, *objects)

    assert rejected(NodeVolumeLimits(), pod, snapshot) == ({TOO_MANY: {"n1"}} if full else {})
    assert unresolvable(NodeVolumeLimits(), pod, snapshot) == set()


@pytest.mark.parametrize("volumes", [[], CONFIG])
def test_a_claim_that_is_not_there(volumes: list[Body]) -> None:
    pod = a_pod(name="abc", ephemeral=["xyz"], volumes=volumes)
    snapshot = a_snapshot(a_node(name="n1"), *limited(1))

    text = 'looking up PVC default/abc-xyz: persistentvolumeclaim "abc-xyz" not found'
    assert rejected(NodeVolumeLimits(), pod, snapshot) == {text: {"n1"}}
    assert unresolvable(NodeVolumeLimits(), pod, snapshot) == {"n1"}


NODES = (a_node(name="n1"), a_node(name="n2"))
BOTH_LIMITED = (a_csi_node(name="n1", limits={EBS: 1}), a_csi_node(name="n2", limits={EBS: 2}))
LATE = a_class(name="late", provisioner=EBS)
STATIC = a_class(name="static", provisioner=well_known.NO_PROVISIONER)


def free(name: str, node: str, storage_class: str, driver: str = "") -> ApiObject:
    source = {"csi": {"driver": driver, "volumeHandle": name}} if driver else None
    return a_volume(name=name, node=node, storage_class=storage_class, source=source)


@pytest.mark.req("T23.to-be-provisioned")
@pytest.mark.parametrize(
    ("objects", "claims", "full"),
    [
        pytest.param([], ["late-1"], {"n1"}, id="one to be made"),
        pytest.param([], ["late-1", "late-2"], {"n1", "n2"}, id="two to be made"),
        pytest.param(
            [free("v1", "n1", "static", EBS), free("v2", "n2", "static", EBS)],
            ["static-1"],
            {"n1"},
            id="one to be given",
        ),
        pytest.param([free("v1", "n1", "static"), free("v2", "n2", "static")], ["static-1"], set(), id="a local one"),
        pytest.param(
            [free("v1", "n1", "static"), free("v2", "n2", "static", EBS)],
            ["static-1"],
            set(),
            id="a local one here, one of the driver there",
        ),
        pytest.param(
            [free("v1", "n1", "static", EBS), free("v2", "n2", "static")],
            ["static-1"],
            {"n1"},
            id="one of the driver here, a local one there",
        ),
        pytest.param(
            [free("v1", "n1", "late"), free("v2", "n2", "late")],
            ["late-1", "late-2"],
            {"n1"},
            id="one given that no driver knows, one made",
        ),
    ],
)
def test_what_the_pod_would_be_given_counts(objects: list[ApiObject], claims: list[str], full: set[str]) -> None:
    """One volume is there: the first node has room for none, the second for one."""
    asked = [a_claim(name=name, storage_class=name.partition("-")[0]) for name in claims]
    there = [
        existing(1, "a"),
        a_pod(name="existing-2", node="n2", claims=["b"]),
        *csi_volume("a"),
        *csi_volume("b"),
    ]
    snapshot = a_snapshot(*NODES, *BOTH_LIMITED, LATE, STATIC, *there, *asked, *objects)

    assert rejected(NodeVolumeLimits(), a_pod(name="new", claims=claims), snapshot) == (
        {TOO_MANY: full} if full else {}
    )


@pytest.mark.req("T23.assumed")
def test_assumed_volume_counts_before_it_is_bound() -> None:
    """Kubernetes counts such claims for a driver without limits until they are bound."""
    claims = [a_claim(name=name, storage_class="static") for name in ("x", "y")]
    volumes = [free(name, "n1", "static", EBS) for name in ("v1", "v2")]
    snapshot = a_snapshot(a_node(name="n1"), *limited(1), STATIC, *claims, *volumes)
    first, second = a_pod(name="first", claims=["x"]), a_pod(name="second", claims=["y"])
    assert rejected(NodeVolumeLimits(), first, snapshot) == {}

    found = snapshot.volumes.claims_of(first)
    assert not isinstance(found, str)
    plan = snapshot.volumes.assume(snapshot.volumes.plan(found, "n1"))
    snapshot.assume(first, "n1")
    assert rejected(NodeVolumeLimits(), second, snapshot) == {TOO_MANY: {"n1"}}

    snapshot.volumes.restore(plan)
    snapshot.forget(first)
    assert rejected(NodeVolumeLimits(), second, snapshot) == {}


@pytest.mark.parametrize(
    ("uid", "want"),
    [
        pytest.param("c-uid", {}, id="reserved for the claim"),
        pytest.param("", {}, id="reserved by name"),
        pytest.param("deleted", {TOO_MANY: {"n1"}}, id="reserved for a deleted claim of the same name"),
    ],
)
def test_claim_counts_as_the_volume_reserved_for_it(uid: str, want: dict[str, set[str]]) -> None:
    """The reserved volume is a local one; without it the claim's volume is to be provisioned by the driver."""
    reserved = a_volume(name="v1", storage_class="late", claim_ref=claim_ref(name="c", uid=uid))
    claims = (a_claim(name="c", storage_class="late"), a_claim(name="d", storage_class="late"))
    snapshot = a_snapshot(a_node(name="n1"), *limited(1), LATE, reserved, *claims, existing(1, "c"))

    assert rejected(NodeVolumeLimits(), a_pod(name="new", claims=["d"]), snapshot) == want


@pytest.mark.req("T23.to-be-provisioned")
def test_provisioned_volume_counts_in_allowed_topology() -> None:
    """As upstream has it: a full node says so, also where the class allows no volume at all."""
    nowhere = a_class(name="made", provisioner=EBS, allowed_topologies=[{"zone": ["unheard-of"]}])
    objects = (a_node(name="n1"), nowhere, a_claim(name="c", storage_class="made"))
    snapshot = a_snapshot(*objects, a_csi_node(name="n1", limits={EBS: 0}))
    assert rejected(NodeVolumeLimits(), a_pod(claims=["c"]), snapshot) == {TOO_MANY: {"n1"}}
