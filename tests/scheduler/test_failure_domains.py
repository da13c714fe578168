import pytest

from builders import Body, a_claim, a_class, a_node, a_pod, a_volume, claim_ref
from mooring.api import keys
from mooring.api.views.meta import ApiObject
from mooring.api.views.pod import Pod
from mooring.scheduler.failure_domains import Loss, losses
from scheduler.snapshots import a_snapshot


def node(name: str, zone: str = "", **more: object) -> ApiObject:
    labels = {keys.HOSTNAME: name} | ({keys.ZONE: zone} if zone else {})
    return a_node(name=name, labels=labels, **more)


NODES = [node("a1", "a"), node("a2", "a"), node("b1", "b"), node("c1", "c")]


def bound(name: str, *on: str, zone: str = "") -> list[ApiObject]:
    """A claim with its volume on some nodes, or with the labels of a zone alone."""
    reference = claim_ref(name=name, uid=f"{name}-uid")
    labels = {keys.ZONE: zone} if zone else {}
    volume = a_volume(name=f"v-{name}", claim_ref=reference, phase="Bound", labels=labels, affinity=among(*on))
    return [a_claim(name=name, volume=f"v-{name}", bound=True), volume]


def among(*names: str) -> Body | None:
    if not names:
        return None
    hosts = {"key": keys.HOSTNAME, "operator": "In", "values": list(names)}
    return {"nodeSelectorTerms": [{"matchExpressions": [hosts]}]}


def selecting(zone: str) -> Pod:
    return a_pod(name="picky", node_selector={keys.ZONE: zone})


@pytest.mark.parametrize(
    ("pod", "objects", "want"),
    [
        pytest.param(a_pod(), [], [], id="no volumes, goes anywhere"),
        pytest.param(a_pod(claims=["d"]), bound("d", "c1"), ["c by volumes"], id="a volume on one node"),
        pytest.param(a_pod(claims=["d"]), bound("d", "a1", "a2"), ["a by volumes"], id="a volume in one zone"),
        pytest.param(a_pod(claims=["d"]), bound("d", "a1", "b1"), [], id="a volume in two zones"),
        pytest.param(a_pod(claims=["d"]), bound("d", zone="b"), ["b by volumes"], id="a volume that only has a label"),
        pytest.param(selecting("b"), [], ["b"], id="wants to be in one zone"),
        pytest.param(a_pod(claims=["d"]), bound("d", "gone"), [], id="can go nowhere as it is"),
        pytest.param(
            a_pod(claims=["d"]),
            [a_claim(name="d"), a_volume(name="v", node="c1")],
            ["c by volumes"],
            id="to be bound late",
        ),
        pytest.param(a_pod(claims=["missing"]), [], [], id="no such claim"),
    ],
)
def test_what_one_pod_depends_on(pod: Pod, objects: list[ApiObject], want: list[str]) -> None:
    snapshot = a_snapshot(*NODES, a_class(name="local"), *objects)
    told = [loss.value + (" by volumes" if loss.by_volumes else "") for loss in losses([pod], snapshot)]
    assert told == want


def test_a_crowd_is_no_reason() -> None:
    """Room is another question: this one is about what nobody's leaving could change."""
    full = [a_pod(name=f"full-{n}", node=n, requests={"cpu": "4"}) for n in ("a1", "a2", "b1")]
    assert losses([a_pod(requests={"cpu": "4"})], a_snapshot(*NODES, *full)) == ()


def test_replicas_are_told_together_in_words() -> None:
    replicas = [a_pod(name=f"db-{n}", claims=[f"d{n}"], node=on) for n, on in enumerate(("c1", "a1", "c1"))]
    objects = [*bound("d0", "c1"), *bound("d1", "a1", "b1"), *bound("d2", "c1")]
    picky = a_pod(name="picky", node_selector={keys.ZONE: "c"})
    found = losses([*replicas, picky], a_snapshot(*NODES, a_class(name="local"), *objects, *replicas))
    db = ("default/db-0", "default/db-2")
    assert found == (Loss(keys.ZONE, "c", (*db, "default/picky"), db),)
    assert str(found[0]) == (
        "if zone c is lost, db-0 and db-2 cannot run anywhere else, since their volumes are only there; "
        "picky cannot run anywhere else, since no other node will do"
    )
    assert str(Loss("rack", "r1", db[:1], db[:1])) == (
        "if rack=r1 is lost, db-0 cannot run anywhere else, since its volumes are only there"
    )


def test_any_label_may_be_a_domain_and_nodes_without_it_are_in_none() -> None:
    nodes = [node("a1", "a"), node("x1"), node("x2")]
    snapshot = a_snapshot(*nodes, a_class(name="local"), *bound("d", "x1"))
    pod = a_pod(claims=["d"])
    assert losses([pod], snapshot) == ()
    assert [loss.value for loss in losses([pod], snapshot, key=keys.HOSTNAME)] == ["x1"]
