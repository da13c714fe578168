"""Volumes that two pods cannot share: disks on one node, and claims for one pod at a time."""

import pytest

from mooring.api.views.meta import ApiObject
from mooring.api.views.pods import Pod
from mooring.scheduler import cluster_events
from mooring.scheduler.cluster_events import ClusterEvent
from mooring.scheduler.plugins.volume_restrictions import CLAIM_IN_USE, DISK_CONFLICT, VolumeRestrictions
from support.builders import Body, a_claim, a_node, a_pod
from support.scheduler.snapshots import a_snapshot, refused, rejected, requeues, unresolvable

pytestmark = [pytest.mark.level("u")]

NODES = (a_node(name="n1"), a_node(name="n2"))


def gce(name: str, *, read_only: bool = False) -> Body:
    return {"gcePersistentDisk": {"pdName": name, "readOnly": read_only}}


def ebs(name: str, *, read_only: bool = False) -> Body:
    return {"awsElasticBlockStore": {"volumeID": name, "readOnly": read_only}}


def iscsi(iqn: str, *, read_only: bool = False, portal: str = "1.2.3.4") -> Body:
    return {"iscsi": {"targetPortal": portal, "iqn": iqn, "lun": 0, "readOnly": read_only}}


def rbd(*monitors: str, image: str = "image", pool: str = "pool", read_only: bool = False) -> Body:
    return {"rbd": {"monitors": list(monitors), "image": image, "pool": pool, "readOnly": read_only}}


def with_disk(source: Body | None, *, name: str = "new", node: str = "") -> Pod:
    volumes = [] if source is None else [{"name": "disk"} | source]
    return a_pod(name=name, node=node, volumes=volumes)


@pytest.mark.req("T25.disks")
@pytest.mark.parametrize(
    ("mine", "theirs", "conflict"),
    [
        pytest.param(None, None, False, id="no disks"),
        pytest.param(None, gce("a"), False, id="only the other has one"),
        pytest.param(gce("a"), gce("a"), True, id="gce, the same"),
        pytest.param(gce("a"), gce("b"), False, id="gce, another"),
        pytest.param(gce("a", read_only=True), gce("a", read_only=True), False, id="gce, both only read"),
        pytest.param(gce("a", read_only=True), gce("a"), True, id="gce, one writes"),
        pytest.param({"emptyDir": {}}, gce("a"), False, id="a volume without restrictions"),
        pytest.param(ebs("a"), ebs("a"), True, id="ebs, the same"),
        pytest.param(ebs("a"), ebs("b"), False, id="ebs, another"),
        pytest.param(ebs("a", read_only=True), ebs("a", read_only=True), True, id="ebs, even if both only read"),
        pytest.param(rbd("m1", "m2"), rbd("m2", "m3"), True, id="rbd, a monitor in common"),
        pytest.param(rbd("m1", "m2"), rbd("m3"), False, id="rbd, no monitor in common"),
        pytest.param(rbd("m1"), rbd("m1", image="x"), False, id="rbd, another image"),
        pytest.param(rbd("m1"), rbd("m1", pool="x"), False, id="rbd, another pool"),
        pytest.param(rbd("m1", read_only=True), rbd("m1", read_only=True), False, id="rbd, both only read"),
        pytest.param(iscsi("a"), iscsi("a"), True, id="iscsi, the same"),
        pytest.param(iscsi("a"), iscsi("a", portal="5.6.7.8"), True, id="iscsi, the same by another portal"),
        pytest.param(iscsi("a"), iscsi("b"), False, id="iscsi, another"),
        pytest.param(iscsi("a", read_only=True), iscsi("a", read_only=True), False, id="iscsi, both only read"),
        pytest.param(gce("a"), ebs("a"), False, id="the same name of another kind"),
    ],
)
def test_disks(mine: Body | None, theirs: Body | None, conflict: bool) -> None:
    there = with_disk(theirs, name="old", node="n1")
    snapshot = a_snapshot(*NODES, there)
    pod = with_disk(mine)

    assert refused(VolumeRestrictions(), pod, snapshot) is None
    assert rejected(VolumeRestrictions(), pod, snapshot) == ({DISK_CONFLICT: {"n1"}} if conflict else {})
    assert unresolvable(VolumeRestrictions(), pod, snapshot) == set()

    snapshot.observe_pod(there, None)
    assert rejected(VolumeRestrictions(), pod, snapshot) == {}


def exclusive(name: str, namespace: str = "default") -> ApiObject:
    return a_claim(name=name, namespace=namespace, access_modes=["ReadWriteOncePod"])


USER = a_pod(name="old", node="n1", claims=["one", "two"])
PLAIN = a_claim(name="plain")


@pytest.mark.req("T25.one-pod")
@pytest.mark.parametrize(
    ("claims", "others", "in_use"),
    [
        pytest.param([], [USER], False, id="no claims"),
        pytest.param(["one"], [], False, id="no other pod"),
        pytest.param(["one"], [USER], True, id="another pod has it"),
        pytest.param(["one", "two"], [USER], True, id="another pod has both"),
        pytest.param(["plain"], [a_pod(name="old", node="n1", claims=["plain"])], False, id="a claim for all"),
        pytest.param(["one"], [a_pod(name="waiting", claims=["one"])], False, id="another pod waits for it"),
        pytest.param(["one"], [a_pod(name="old", node="gone", claims=["one"])], False, id="its node is gone"),
        pytest.param(
            ["one"], [a_pod(name="old", node="n1", claims=["one"], phase="Failed")], False, id="another pod had it"
        ),
        pytest.param(
            ["one"],
            [a_pod(name="old", namespace="elsewhere", node="n1", claims=["one"])],
            False,
            id="one of that name in another namespace",
        ),
    ],
)
def test_claims_for_one_pod(claims: list[str], others: list[Pod], in_use: bool) -> None:
    objects = [exclusive("one"), exclusive("two"), exclusive("one", "elsewhere"), PLAIN]
    snapshot = a_snapshot(*NODES, *objects, *others)
    pod = a_pod(name="new", claims=claims)

    assert refused(VolumeRestrictions(), pod, snapshot) is None
    assert rejected(VolumeRestrictions(), pod, snapshot) == ({CLAIM_IN_USE: {"n1", "n2"}} if in_use else {})
    assert unresolvable(VolumeRestrictions(), pod, snapshot) == set()


@pytest.mark.req("T25.disks", "T25.one-pod")
def test_a_node_with_both_problems_is_named_with_the_first() -> None:
    volumes = [{"name": "disk"} | gce("a"), {"name": "data", "persistentVolumeClaim": {"claimName": "one"}}]
    old = a_pod(name="old", node="n1", volumes=volumes)
    snapshot = a_snapshot(*NODES, exclusive("one"), old)

    said = rejected(VolumeRestrictions(), a_pod(name="new", volumes=volumes), snapshot)

    assert said == {DISK_CONFLICT: {"n1"}, CLAIM_IN_USE: {"n2"}}


@pytest.mark.req("T25.one-pod")
def test_a_claim_that_is_not_there() -> None:
    said = refused(VolumeRestrictions(), a_pod(claims=["one"]), a_snapshot(*NODES))

    assert said == 'persistentvolumeclaim "one" not found'


@pytest.mark.req("T25.one-pod")
def test_a_pod_that_was_promised_a_node_has_its_claim() -> None:
    snapshot = a_snapshot(*NODES, exclusive("one"))
    first, second = a_pod(name="first", claims=["one"]), a_pod(name="second", claims=["one"])

    snapshot.assume(first, "n2")
    assert rejected(VolumeRestrictions(), second, snapshot) == {CLAIM_IN_USE: {"n1", "n2"}}

    snapshot.forget(first)
    assert rejected(VolumeRestrictions(), second, snapshot) == {}


def gone(pod: Pod) -> ClusterEvent | None:
    return cluster_events.pod_event(pod, None)


@pytest.mark.req("T26.volumes", "T25.wakes")
@pytest.mark.parametrize(
    ("pod", "change", "want"),
    [
        pytest.param(with_disk(gce("a")), gone(with_disk(gce("a"), node="n")), True, id="gce, the same disk"),
        pytest.param(with_disk(gce("a")), gone(with_disk(gce("b"), node="n")), False, id="gce, another disk"),
        pytest.param(with_disk(ebs("a")), gone(with_disk(ebs("a"), node="n")), True, id="ebs, the same volume"),
        pytest.param(with_disk(ebs("a")), gone(with_disk(ebs("b"), node="n")), False, id="ebs, another volume"),
        pytest.param(with_disk(rbd("m")), gone(with_disk(rbd("m"), node="n")), True, id="rbd, the same image"),
        pytest.param(with_disk(rbd("m")), gone(with_disk(rbd("x"), node="n")), False, id="rbd, other monitors"),
        pytest.param(with_disk(iscsi("a")), gone(with_disk(iscsi("a"), node="n")), True, id="iscsi, the same target"),
        pytest.param(with_disk(iscsi("a")), gone(with_disk(iscsi("b"), node="n")), False, id="iscsi, another target"),
        pytest.param(
            with_disk(gce("a")),
            gone(a_pod(namespace="x", node="n", volumes=[{"name": "d"} | gce("a")])),
            True,
            id="a disk is the same in every namespace",
        ),
        pytest.param(a_pod(claims=["a"]), gone(a_pod(claims=["a"], node="n")), True, id="the same claim"),
        pytest.param(a_pod(claims=["a"]), gone(a_pod(claims=["b"], node="n")), False, id="another claim"),
        pytest.param(
            a_pod(claims=["a"]), gone(a_pod(namespace="x", claims=["a"], node="n")), False, id="a namesake elsewhere"
        ),
        pytest.param(a_pod(claims=["a"]), gone(a_pod(claims=["a"])), False, id="a pod that never had a node"),
        pytest.param(
            a_pod(claims=["a"]), cluster_events.claim_event(None, a_claim(name="a")), True, id="its claim appears"
        ),
        pytest.param(
            a_pod(claims=["a"]), cluster_events.claim_event(None, a_claim(name="b")), False, id="another claim appears"
        ),
        pytest.param(
            a_pod(), cluster_events.claim_event(None, a_claim(name="a")), False, id="a claim, the pod has none"
        ),
        pytest.param(
            a_pod(claims=["a"]),
            cluster_events.claim_event(None, a_claim(name="a", namespace="x")),
            False,
            id="a claim of that name in another namespace",
        ),
        pytest.param(a_pod(), cluster_events.node_event(None, a_node()), True, id="a node appears"),
    ],
)
def test_wakes(pod: Pod, change: ClusterEvent | None, want: bool) -> None:
    assert requeues(VolumeRestrictions(), pod, change) is want
