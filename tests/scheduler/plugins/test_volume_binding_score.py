"""Which node is best for a pod's volumes: kube-scheduler's optional scores, and Mooring's own."""

import random

import pytest

from builders import a_capacity, a_claim, a_class, a_driver, a_node, a_pod, a_volume, reachable_from
from mooring.api import keys
from mooring.api.views.meta import ApiObject
from mooring.api.views.volume import Volume
from mooring.scheduler.cycle import decide
from mooring.scheduler.plugins.volume_binding import VolumeBinding
from mooring.scheduler.registry import DEFAULT
from mooring.volumes.scoring import EMPTIEST_FIRST, Ramp, RampPoint
from mooring.volumes.state import NOTHING_TO_BIND
from scheduler.snapshots import a_snapshot, rejected, scored

pytestmark = [pytest.mark.req("T12"), pytest.mark.level("u")]

WAIT, HDD = a_class(name="wait"), a_class(name="hdd")
MADE = a_class(name="made", provisioner="csi.example.com")
TRACKING = a_driver(tracks_capacity=True)
FULLEST_FIRST = Ramp((RampPoint(0, 0), RampPoint(100, 10)))
GENTLE = Ramp((RampPoint(0, 0), RampPoint(50, 3), RampPoint(100, 5)))


def nodes(*names: str) -> list[ApiObject]:
    return [a_node(name=name) for name in names]


def zoned(*zones: str) -> list[ApiObject]:
    return [a_node(name=f"{zone}-{number}", zone=zone) for zone in zones for number in (1, 2)]


def local(node: str, size: str, storage_class: str = "wait") -> Volume:
    return a_volume(name=f"{node}-{storage_class}-{size}", node=node, size=size, storage_class=storage_class)


def zonal(zone: str, size: str) -> Volume:
    return a_volume(name=f"{zone}-{size}", affinity=reachable_from(keys.ZONE, zone), size=size, storage_class="wait")


def room(node: str, capacity: str) -> ApiObject:
    return a_capacity(name=node, capacity=capacity, topology={"matchLabels": {keys.HOSTNAME: node}})


def claim(size: str, storage_class: str, name: str = "claim-1") -> ApiObject:
    return a_claim(name=name, size=size, storage_class=storage_class)


STATIC = [claim("50Gi", "wait"), local("a", "200Gi"), local("b", "100Gi")]
ZONAL = [claim("50Gi", "wait"), zonal("a", "200Gi"), zonal("b", "100Gi")]


@pytest.mark.parametrize(
    ("ramp", "objects", "want"),
    [
        pytest.param(FULLEST_FIRST, [*nodes("a", "b", "c"), *STATIC], {"a": 25, "b": 50, "c": 0}, id="local"),
        pytest.param(
            FULLEST_FIRST,
            [
                *nodes("a", "b", "c"),
                *STATIC,
                claim("100Gi", "hdd", "claim-2"),
                local("a", "200Gi", "hdd"),
                local("b", "100Gi", "hdd"),
            ],
            {"a": 38, "b": 75, "c": 0},
            id="local, two classes",
        ),
        pytest.param(
            FULLEST_FIRST,
            [*zoned("a", "b", "c"), *ZONAL],
            {"a-1": 25, "a-2": 25, "b-1": 50, "b-2": 50, "c-1": 0, "c-2": 0},
            id="zonal",
        ),
        pytest.param(
            GENTLE,
            [*zoned("a", "b", "c"), *ZONAL],
            {"a-1": 15, "a-2": 15, "b-1": 30, "b-2": 30, "c-1": 0, "c-2": 0},
            id="zonal, another ramp",
        ),
        pytest.param(
            FULLEST_FIRST,
            [*nodes("a", "b", "c"), claim("10Gi", "made"), room("a", "100Gi"), room("b", "50Gi"), room("c", "10Gi")],
            {"a": 10, "b": 20, "c": 100},
            id="to be made",
        ),
        pytest.param(
            FULLEST_FIRST,
            [
                *nodes("a", "b"),
                claim("10Gi", "made"),
                room("a", "100Gi"),
                room("b", "50Gi"),
                claim("50Gi", "wait", "claim-2"),
                local("a", "100Gi"),
                local("b", "100Gi"),
            ],
            {"a": 50, "b": 50},
            id="to be made and existing: the existing count",
        ),
        pytest.param(
            FULLEST_FIRST,
            [*nodes("a"), claim("50Gi", "made"), claim("50Gi", "made", "claim-2"), room("a", "100Gi")],
            {"a": 100},
            id="two of one class to be made",
        ),
        pytest.param(
            FULLEST_FIRST,
            [*nodes("a", "b", "c"), claim("10Gi", "made"), room("a", "100Gi"), room("b", "20Gi"), room("c", "10Gi")],
            {"a": 10, "b": 50, "c": 100},
            id="the fullest wins",
        ),
        pytest.param(
            EMPTIEST_FIRST,
            [*nodes("a", "b", "c"), claim("10Gi", "made"), room("a", "100Gi"), room("b", "20Gi"), room("c", "10Gi")],
            {"a": 90, "b": 50, "c": 0},
            id="the emptiest wins",
        ),
        pytest.param(
            FULLEST_FIRST,
            [*nodes("a"), claim("10Gi", "made"), a_capacity(largest="20Gi", topology={})],
            {"a": 50},
            id="only the largest size is reported",
        ),
        pytest.param(
            FULLEST_FIRST,
            [
                *nodes("a"),
                a_claim(size="50Gi", storage_class=None, annotations={keys.STORAGE_CLASS_BETA: "wait"}),
                local("a", "100Gi"),
            ],
            {"a": 50},
            id="the class comes from the legacy annotation",
        ),
    ],
)
def test_as_kube_scheduler_scores(ramp: Ramp, objects: list[ApiObject], want: dict[str, float]) -> None:
    names = [thing.name for thing in objects if thing.name.startswith("claim-")]
    snapshot = a_snapshot(WAIT, HDD, MADE, TRACKING, *objects)

    assert scored(VolumeBinding(ramp), a_pod(claims=names), snapshot) == want


@pytest.mark.parametrize(
    ("objects", "best"),
    [
        pytest.param(STATIC, ["b"], id="the closest volume"),
        pytest.param([*STATIC, local("c", "60Gi")], ["c"], id="closer still"),
        pytest.param(
            [claim("10Gi", "made"), local("b", "900Gi", "made"), room("a", "1Ti"), room("c", "1Ti")],
            ["b"],
            id="an existing volume, however loose, before one to be made",
        ),
        pytest.param(
            [claim("10Gi", "made"), room("a", "20Gi"), room("b", "30Gi"), room("c", "1Ti")],
            ["c"],
            id="where most stays free",
        ),
        pytest.param([*STATIC[:1], *(local(n, "60Gi") for n in "abc")], ["a", "b", "c"], id="all alike"),
    ],
)
def test_the_best_node(objects: list[ApiObject], best: list[str]) -> None:
    snapshot = a_snapshot(*nodes("a", "b", "c"), WAIT, MADE, TRACKING, *objects)

    scores = scored(VolumeBinding(), a_pod(claims=["claim-1"]), snapshot)

    assert scores is not None
    assert [name for name, score in scores.items() if score == max(scores.values())] == best


@pytest.mark.parametrize(
    "objects",
    [
        pytest.param([a_claim(volume="v", bound=True), a_volume(name="v", phase="Bound")], id="everything is bound"),
        pytest.param([a_claim(storage_class="made", selected_node="a")], id="the node was chosen before"),
    ],
)
def test_no_opinion(objects: list[ApiObject]) -> None:
    snapshot = a_snapshot(*nodes("a", "b"), WAIT, MADE, *objects)

    assert scored(VolumeBinding(), a_pod(claims=["claim-1"]), snapshot) is None
    assert scored(VolumeBinding(), a_pod(), snapshot) is None


@pytest.mark.req("T44")
def test_the_score_changes_the_order_of_nodes_or_leaves_it() -> None:
    """Without volumes the emptier node wins; a closer volume on the other one outweighs it, an equal one does not."""
    busy = a_pod(name="busy", node="b", requests={"cpu": "1"})
    pod = a_pod(claims=["claim-1"])

    def chosen(*volumes: Volume) -> str:
        snapshot = a_snapshot(*nodes("a", "b"), WAIT, busy, claim("50Gi", "wait"), *volumes)
        return decide(pod, snapshot, DEFAULT, random.Random(0)).node

    assert chosen(local("a", "100Gi"), local("b", "100Gi")) == "a"
    assert chosen(local("a", "500Gi"), local("b", "50Gi")) == "b"


@pytest.mark.req("T12")
def test_an_existing_volume_outweighs_all_that_resources_say() -> None:
    full = a_pod(name="busy", node="b", requests={"cpu": "3900m", "memory": "7Gi"})
    snapshot = a_snapshot(*nodes("a", "b"), MADE, full, claim("1Gi", "made"), local("b", "900Gi", "made"))

    assert decide(a_pod(claims=["claim-1"]), snapshot, DEFAULT, random.Random(0)).node == "b"


def test_nodes_without_a_plan_are_rejected_and_score_nothing() -> None:
    snapshot = a_snapshot(*nodes("a", "b", "c"), WAIT, *STATIC)

    assert rejected(VolumeBinding(), a_pod(claims=["claim-1"]), snapshot) == {NOTHING_TO_BIND: {"c"}}
    assert scored(VolumeBinding(), a_pod(claims=["claim-1"]), snapshot)["c"] == 0
