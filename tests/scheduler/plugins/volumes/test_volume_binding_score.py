"""Which node is best for a pod's volumes: kube-scheduler's optional scores, and Mooring's own."""

import random

import pytest

from mooring.api import well_known
from mooring.api.views.meta import ApiObject
from mooring.api.views.storage import StorageClass, Volume
from mooring.scheduler.framework.cycle import Profile, run_cycle
from mooring.scheduler.framework.interface import CycleState
from mooring.scheduler.plugins.volume_binding import VolumeBinding
from mooring.scheduler.registry import DEFAULT, KUBE_SCHEDULER
from mooring.volumes.scoring import EMPTIEST_FIRST, UtilizationShape, UtilizationShapePoint
from mooring.volumes.state import ConflictReason
from support.builders import a_capacity, a_claim, a_class, a_driver, a_node, a_pod, a_volume, reachable_from
from support.scheduler.snapshots import a_snapshot, rejected, scored

pytestmark = [pytest.mark.level("u")]

WAIT, HDD = a_class(name="wait"), a_class(name="hdd")
MADE = a_class(name="made", provisioner="csi.example.com")
TRACKING = a_driver(tracks_capacity=True)
FULLEST_FIRST = UtilizationShape((UtilizationShapePoint(0, 0), UtilizationShapePoint(100, 10)))
GENTLE = UtilizationShape((UtilizationShapePoint(0, 0), UtilizationShapePoint(50, 3), UtilizationShapePoint(100, 5)))


def nodes(*names: str) -> list[ApiObject]:
    return [a_node(name=name) for name in names]


def zoned(*zones: str) -> list[ApiObject]:
    return [a_node(name=f"{zone}-{number}", zone=zone) for zone in zones for number in (1, 2)]


def local(node: str, size: str, storage_class: str = "wait") -> Volume:
    return a_volume(name=f"{node}-{storage_class}-{size}", node=node, size=size, storage_class=storage_class)


def zonal(zone: str, size: str) -> Volume:
    return a_volume(
        name=f"{zone}-{size}", affinity=reachable_from(well_known.ZONE, zone), size=size, storage_class="wait"
    )


def free_capacity(node: str, capacity: str) -> ApiObject:
    return a_capacity(name=node, capacity=capacity, topology={"matchLabels": {well_known.HOSTNAME: node}})


def claim(size: str, storage_class: str, name: str = "claim-1") -> ApiObject:
    return a_claim(name=name, size=size, storage_class=storage_class)


STATIC = [claim("50Gi", "wait"), local("a", "200Gi"), local("b", "100Gi")]
ZONAL = [claim("50Gi", "wait"), zonal("a", "200Gi"), zonal("b", "100Gi")]


@pytest.mark.req("T12.kube-scheduler")
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
            [
                *nodes("a", "b", "c"),
                claim("10Gi", "made"),
                free_capacity("a", "100Gi"),
                free_capacity("b", "50Gi"),
                free_capacity("c", "10Gi"),
            ],
            {"a": 10, "b": 20, "c": 100},
            id="to be made",
        ),
        pytest.param(
            FULLEST_FIRST,
            [
                *nodes("a", "b"),
                claim("10Gi", "made"),
                free_capacity("a", "100Gi"),
                free_capacity("b", "50Gi"),
                claim("50Gi", "wait", "claim-2"),
                local("a", "100Gi"),
                local("b", "100Gi"),
            ],
            {"a": 50, "b": 50},
            id="to be made and existing: the existing count",
        ),
        pytest.param(
            FULLEST_FIRST,
            [*nodes("a"), claim("50Gi", "made"), claim("50Gi", "made", "claim-2"), free_capacity("a", "100Gi")],
            {"a": 100},
            id="two of one class to be made",
        ),
        pytest.param(
            FULLEST_FIRST,
            [
                *nodes("a", "b", "c"),
                claim("10Gi", "made"),
                free_capacity("a", "100Gi"),
                free_capacity("b", "20Gi"),
                free_capacity("c", "10Gi"),
            ],
            {"a": 10, "b": 50, "c": 100},
            id="the fullest wins",
        ),
        pytest.param(
            EMPTIEST_FIRST,
            [
                *nodes("a", "b", "c"),
                claim("10Gi", "made"),
                free_capacity("a", "100Gi"),
                free_capacity("b", "20Gi"),
                free_capacity("c", "10Gi"),
            ],
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
                a_claim(size="50Gi", storage_class=None, annotations={well_known.STORAGE_CLASS_BETA: "wait"}),
                local("a", "100Gi"),
            ],
            {"a": 50},
            id="the class comes from the legacy annotation",
        ),
    ],
)
def test_as_kube_scheduler_scores(ramp: UtilizationShape, objects: list[ApiObject], want: dict[str, float]) -> None:
    names = [thing.name for thing in objects if thing.name.startswith("claim-")]
    snapshot = a_snapshot(WAIT, HDD, MADE, TRACKING, *objects)

    assert scored(VolumeBinding(ramp), a_pod(claims=names), snapshot) == want


def admitted(*capacities: tuple[str, str | None], storage_class: str = "made") -> list[ApiObject]:
    """Capacity objects of node a: capacity and largest volume."""
    topology = {"matchLabels": {well_known.HOSTNAME: "a"}}
    return [
        a_capacity(
            name=f"{storage_class}-{place}",
            storage_class=storage_class,
            capacity=capacity,
            largest=largest,
            topology=topology,
        )
        for place, (capacity, largest) in enumerate(capacities)
    ]


MADE_2 = a_class(name="made-2", provisioner="csi.example.com")
UNTRACKED = a_class(name="untracked", provisioner="other.example.com")


@pytest.mark.parametrize(
    ("objects", "score"),
    [
        pytest.param([claim("10Gi", "made"), *admitted(("100Gi", None))], 90, id="10Gi of 100Gi"),
        pytest.param([claim("1Gi", "made"), *admitted(("3Gi", None))], 67, id="1Gi of 3Gi"),
        pytest.param(
            [claim("50Gi", "made"), claim("30Gi", "made", "claim-2"), *admitted(("100Gi", None))],
            20,
            id="two claims of one class",
        ),
        pytest.param(
            [
                claim("10Gi", "made"),
                claim("45Gi", "made-2", "claim-2"),
                *admitted(("100Gi", None)),
                *admitted(("100Gi", None), storage_class="made-2"),
            ],
            73,
            id="two classes, half a point rounded up",
        ),
        pytest.param([claim("5Gi", "wait"), local("a", "8Gi")], 38, id="an existing volume"),
        pytest.param(
            [claim("5Gi", "wait"), claim("5Gi", "made", "claim-2"), local("a", "5Gi"), *admitted(("1Ti", None))],
            0,
            id="an existing volume of the exact size, and one to be made: only the former counts",
        ),
        pytest.param([claim("5Gi", "untracked")], 0, id="a driver without capacity tracking"),
        pytest.param(
            [claim("100Gi", "made"), *admitted(("50Gi", "200Gi"))], 0, id="the largest size admits, not counts"
        ),
        pytest.param(
            [claim("10Gi", "made"), *admitted(("1Ti", "1Gi"), ("20Gi", None))],
            50,
            id="an object that does not admit the claim does not count",
        ),
        pytest.param(
            [
                claim("10Gi", "made"),
                a_claim(name="other", size="30Gi", storage_class="made", selected_node="a"),
                *admitted(("100Gi", "100Gi")),
            ],
            90,
            id="what is in flight is not subtracted",
        ),
    ],
)
def test_kube_schedulers_formula(objects: list[ApiObject], score: int) -> None:
    names = [thing.name for thing in objects if thing.name.startswith("claim-")]
    others = (WAIT, MADE, MADE_2, UNTRACKED, TRACKING, a_driver(name="other.example.com", tracks_capacity=False))
    snapshot = a_snapshot(*nodes("a", "b"), *others, *objects)
    (plugin,) = (one for one in KUBE_SCHEDULER.scorers if one.name == "VolumeBinding")

    scores = scored(plugin, a_pod(claims=names), snapshot)

    assert scores is not None
    assert scores["a"] == score


@pytest.mark.parametrize(
    ("objects", "best"),
    [
        pytest.param([claim("5Gi", "wait"), local("a", "5Gi"), local("b", "50Gi")], "b", id="the loosest volume"),
        pytest.param(
            [claim("5Gi", "made"), local("a", "5Gi", "made"), free_capacity("b", "1Ti")],
            "b",
            id="an empty pool before a volume of the exact size",
        ),
    ],
)
def test_with_kube_schedulers_scoring_the_opposite_node_is_chosen(objects: list[ApiObject], best: str) -> None:
    pod, snapshot = a_pod(claims=["claim-1"]), a_snapshot(*nodes("a", "b"), WAIT, MADE, TRACKING, *objects)

    assert run_cycle(CycleState(pod, snapshot), KUBE_SCHEDULER, random.Random(0)).node == best
    assert run_cycle(CycleState(pod, snapshot), DEFAULT, random.Random(0)).node != best


@pytest.mark.req("T12.closeness")
@pytest.mark.parametrize(
    ("objects", "best"),
    [
        pytest.param(STATIC, ["b"], id="the closest volume"),
        pytest.param([*STATIC, local("c", "60Gi")], ["c"], id="closer still"),
        pytest.param(
            [claim("10Gi", "made"), local("b", "900Gi", "made"), free_capacity("a", "1Ti"), free_capacity("c", "1Ti")],
            ["b"],
            id="an existing volume, however loose, before one to be made",
        ),
        pytest.param(
            [claim("10Gi", "made"), free_capacity("a", "20Gi"), free_capacity("b", "30Gi"), free_capacity("c", "1Ti")],
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


def choosing(policy: str, name: str = "made") -> StorageClass:
    return a_class(name=name, provisioner="csi.example.com", annotations={well_known.CAPACITY_POLICY: policy})


POOLS = [claim("10Gi", "made"), free_capacity("a", "20Gi"), free_capacity("b", "1Ti")]
LOCAL = [claim("10Gi", "made"), local("a", "20Gi", "made"), local("b", "1Ti", "made")]


@pytest.mark.parametrize(
    ("policy", "profile", "objects", "best", "decided_by"),
    [
        pytest.param("", DEFAULT, POOLS, "b", "Spread", id="nothing chosen: the profile's"),
        pytest.param("", KUBE_SCHEDULER, LOCAL, "b", "kube-scheduler", id="nothing chosen: the other profile's"),
        pytest.param("Pack", DEFAULT, POOLS, "a", "Pack", id="pack"),
        pytest.param("Pack", KUBE_SCHEDULER, POOLS, "a", "Pack", id="pack, whatever the profile"),
        pytest.param("Spread", KUBE_SCHEDULER, LOCAL, "a", "Spread", id="the closest fit, whatever the profile"),
        pytest.param("kube-scheduler", DEFAULT, LOCAL, "b", "kube-scheduler", id="the loosest fit"),
        pytest.param("Heap", DEFAULT, POOLS, "b", "Spread", id="unknown: the profile's"),
    ],
)
def test_a_class_chooses_the_policy_for_its_claims(
    policy: str, profile: Profile, objects: list[ApiObject], best: str, decided_by: str
) -> None:
    snapshot = a_snapshot(*nodes("a", "b"), choosing(policy), TRACKING, *objects)

    decision = run_cycle(CycleState(a_pod(claims=["claim-1"]), snapshot), profile, random.Random(0))

    assert (decision.node, decision.ranking.volume_policy) == (best, decided_by)


def test_claims_with_different_policies_count_alike() -> None:
    """Pack alone gives node a more, kube-scheduler's formula alone node b."""
    pools = [free_capacity("a", "20Gi"), free_capacity("b", "100Gi")]
    loose = [claim("10Gi", "loose", "claim-2"), local("a", "10Gi", "loose"), local("b", "40Gi", "loose")]
    classes = choosing("Pack"), choosing("kube-scheduler", "loose")
    snapshot = a_snapshot(*nodes("a", "b"), *classes, TRACKING, claim("10Gi", "made"), *pools, *loose)

    def of(*claims: str) -> dict[str, float]:
        scores = scored(VolumeBinding(), a_pod(claims=claims), snapshot)
        assert scores is not None
        return scores

    packed, spread, both = of("claim-1"), of("claim-2"), of("claim-1", "claim-2")
    assert packed["a"] > packed["b"]
    assert spread == {"a": 0, "b": 75}
    assert both == {name: pytest.approx((packed[name] + spread[name]) / 2) for name in "ab"}


@pytest.mark.parametrize(
    ("policy", "problem"),
    [
        ("", ""),
        ("Pack", ""),
        ("kube-scheduler", ""),
        ("pack", "annotation mooring.dev/capacity-policy: 'pack' is not one of Spread, Pack, kube-scheduler"),
    ],
)
def test_an_unknown_policy_is_reported(policy: str, problem: str) -> None:
    assert a_snapshot().volumes.observe_class(None, choosing(policy)) == problem


@pytest.mark.req("T12.order")
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


@pytest.mark.req("T44.score-order", "T12.order")
def test_the_score_changes_the_order_of_nodes_or_leaves_it() -> None:
    """Without volumes the emptier node wins; a closer volume on the other one outweighs it, an equal one does not."""
    busy = a_pod(name="busy", node="b", requests={"cpu": "1"})
    pod = a_pod(claims=["claim-1"])

    def chosen(*volumes: Volume) -> str:
        snapshot = a_snapshot(*nodes("a", "b"), WAIT, busy, claim("50Gi", "wait"), *volumes)
        return run_cycle(CycleState(pod, snapshot), DEFAULT, random.Random(0)).node

    assert chosen(local("a", "100Gi"), local("b", "100Gi")) == "a"
    assert chosen(local("a", "500Gi"), local("b", "50Gi")) == "b"


@pytest.mark.req("T12.existing-first")
def test_an_existing_volume_outweighs_all_that_resources_say() -> None:
    full = a_pod(name="busy", node="b", requests={"cpu": "3900m", "memory": "7Gi"})
    snapshot = a_snapshot(*nodes("a", "b"), MADE, full, claim("1Gi", "made"), local("b", "900Gi", "made"))

    assert run_cycle(CycleState(a_pod(claims=["claim-1"]), snapshot), DEFAULT, random.Random(0)).node == "b"


@pytest.mark.req("T12.order")
def test_nodes_without_a_plan_are_rejected_and_score_nothing() -> None:
    snapshot = a_snapshot(*nodes("a", "b", "c"), WAIT, *STATIC)

    assert rejected(VolumeBinding(), a_pod(claims=["claim-1"]), snapshot) == {ConflictReason.NO_VOLUME: {"c"}}
    assert scored(VolumeBinding(), a_pod(claims=["claim-1"]), snapshot)["c"] == 0
