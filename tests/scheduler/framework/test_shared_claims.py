"""Pods that share a claim: the first is scheduled to where the others can run too."""

import random
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.api import well_known
from mooring.api.views.meta import ApiObject
from mooring.api.views.pods import Pod
from mooring.scheduler.framework import cycle
from mooring.scheduler.framework.interface import CycleState
from mooring.scheduler.framework.shared_claims import MAX_SHARING_PODS
from mooring.scheduler.registry import DEFAULT
from mooring.scheduler.snapshot.snapshot import Snapshot
from support.builders import Body, a_claim, a_class, a_csi_node, a_driver, a_node, a_pod, a_volume, claim_ref
from support.builders.drivers import DRIVER
from support.scheduler.snapshots import a_snapshot

pytestmark = pytest.mark.req("T49.together")

MADE = a_class(name="made", provisioner=DRIVER)


def claim(*modes: str, name: str = "shared") -> ApiObject:
    return a_claim(name=name, storage_class="made", access_modes=modes or ("ReadWriteOnce",))


def user(name: str, *, zone: str = "", cpu: str = "1", node: str = "", **more: object) -> Pod:
    selector = {well_known.ZONE: zone} if zone else None
    claims = ["shared"]
    return a_pod(name=name, claims=claims, node_selector=selector, requests={"cpu": cpu}, node=node, **more)  # type: ignore[arg-type]


def zonal(*nodes: ApiObject) -> list[ApiObject]:
    """CSINodes whose driver provisions for a zone."""
    return [a_csi_node(name=node.name, topology={DRIVER: (well_known.ZONE,)}) for node in nodes]


def scheduled(snapshot: Snapshot, pod: Pod, *, seed: int = 0) -> str:
    return cycle.run_cycle(CycleState(pod, snapshot), DEFAULT, random.Random(seed)).node


def all_seeds(snapshot: Snapshot, pod: Pod) -> set[str]:
    return {scheduled(snapshot, pod, seed=seed) for seed in range(10)}


A1, A2, B1 = a_node(name="a1", zone="a"), a_node(name="a2", zone="a"), a_node(name="b1", zone="b")


def test_pod_alone_takes_any_node() -> None:
    first = user("first")
    assert all_seeds(a_snapshot(A1, A2, B1, MADE, claim(), first), first) == {"a1", "a2", "b1"}


@pytest.mark.parametrize("modes", [("ReadWriteOnce",), ("ReadWriteMany",), ("ReadOnlyMany",)])
def test_first_pod_goes_to_the_zone_of_another_that_shares_its_claim(modes: tuple[str, ...]) -> None:
    first, other = user("first"), user("other", zone="b")
    snapshot = a_snapshot(A1, A2, B1, *zonal(A1, A2, B1), MADE, claim(*modes), first, other)
    assert all_seeds(snapshot, first) == {"b1"}


def test_pods_of_a_volume_for_one_node_need_resources_for_all_of_them_there() -> None:
    """The small node is emptier, and would have been preferred."""
    small = a_node(name="small", allocatable={"cpu": "3"})
    large = a_node(name="large", allocatable={"cpu": "16"})
    busy = a_pod(name="busy", node="large", requests={"cpu": "12", "memory": "4Gi"})
    pods = [user(name, cpu="2") for name in ("first", "other")]
    assert all_seeds(a_snapshot(small, large, busy, MADE, claim(), pods[0]), pods[0]) == {"small"}
    assert all_seeds(a_snapshot(small, large, busy, MADE, claim(), *pods), pods[0]) == {"large"}


def test_pods_of_a_volume_for_many_nodes_spread_over_its_zone() -> None:
    nodes = [a_node(name=name, zone=name[0], allocatable={"cpu": "2"}) for name in ("a1", "b1", "b2")]
    pods = [user(name, cpu="2") for name in ("first", "other")]
    snapshot = a_snapshot(*nodes, *zonal(*nodes), MADE, claim("ReadWriteMany"), *pods)
    assert all_seeds(snapshot, pods[0]) <= {"b1", "b2"}


def test_first_pod_leaves_the_only_node_of_another() -> None:
    nodes = [a_node(name=name, zone="b", labels={"n": name}, allocatable={"cpu": "2"}) for name in ("b1", "b2")]
    first = user("first", cpu="2")
    other = a_pod(name="other", claims=["shared"], node_selector={"n": "b1"}, requests={"cpu": "2"})
    snapshot = a_snapshot(*nodes, *zonal(*nodes), MADE, claim("ReadWriteMany"), first, other)
    assert all_seeds(snapshot, first) == {"b2"}


def test_existing_volume_is_taken_where_both_pods_reach_it() -> None:
    volumes = [
        a_volume(name=f"in-{zone}", storage_class="static", access_modes=("ReadWriteMany",), affinity=_in_zone(zone))
        for zone in "ab"
    ]
    shared = a_claim(name="shared", storage_class="static", access_modes=("ReadWriteMany",))
    first, other = user("first"), user("other", zone="b")
    snapshot = a_snapshot(A1, A2, B1, a_class(name="static"), *volumes, shared, first, other)
    assert all_seeds(snapshot, first) == {"b1"}


def _in_zone(zone: str) -> Body:
    return {"nodeSelectorTerms": [{"matchExpressions": [{"key": well_known.ZONE, "operator": "In", "values": [zone]}]}]}


def test_first_pod_is_scheduled_alone_where_not_all_can_run() -> None:
    first, other = user("first", zone="a"), user("other", zone="b")
    snapshot = a_snapshot(A1, B1, *zonal(A1, B1), MADE, claim("ReadWriteMany"), first, other)
    assert scheduled(snapshot, first) == "a1"


@pytest.mark.parametrize(
    "hopeless",
    [
        pytest.param(user("hopeless", cpu="100"), id="too large for every node"),
        pytest.param(a_pod(name="hopeless", claims=["shared", "missing"]), id="a claim is missing"),
    ],
)
def test_pod_without_any_node_does_not_count(hopeless: Pod) -> None:
    first, other = user("first"), user("other", zone="b")
    snapshot = a_snapshot(A1, A2, B1, MADE, claim(), first, other, hopeless)
    assert all_seeds(snapshot, first) == {"b1"}


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(user("other", zone="b", deleting=True), id="terminating"),
        pytest.param(user("other", zone="b", phase="Succeeded"), id="finished"),
        pytest.param(a_pod(name="other", namespace="else", claims=["shared"]), id="claim of another namespace"),
    ],
)
def test_pod_that_does_not_wait_for_the_claim_does_not_count(other: Pod) -> None:
    first = user("first")
    assert all_seeds(a_snapshot(A1, A2, B1, MADE, claim(), first, other), first) == {"a1", "a2", "b1"}


def test_pod_joins_another_that_has_the_volume_attached() -> None:
    volume = a_volume(
        name="v",
        storage_class="made",
        source={"csi": {"driver": DRIVER, "volumeHandle": "v"}},
        claim_ref=claim_ref(name="shared", uid="u"),
        phase="Bound",
    )
    bound = a_claim(name="shared", storage_class="made", uid="u", volume="v", bound=True)
    later = user("later")
    snapshot = a_snapshot(A1, A2, B1, MADE, a_driver(), volume, bound, user("running", node="a2"), later)
    assert all_seeds(snapshot, later) == {"a2"}
    full = a_snapshot(A1, A2, B1, MADE, a_driver(), volume, bound, user("running", node="a2", cpu="4"), later)
    assert all_seeds(full, later) == {"a1", "b1"}


def test_decision_leaves_the_snapshot_as_it_was() -> None:
    pods = [user(name) for name in ("first", "other", "third")]
    snapshot = a_snapshot(A1, A2, B1, *zonal(A1, A2, B1), MADE, claim("ReadWriteMany"), *pods)
    before = snapshot.resources.requested("cpu").tolist()
    scheduled(snapshot, pods[0])
    assert snapshot.resources.requested("cpu").tolist() == before
    assert not list(snapshot.pod_keys)


def test_number_of_pods_and_places_that_are_looked_at_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = [a_node(name=f"n{number:02}", zone=f"z{number:02}") for number in range(50)]
    pods = [user(f"p{number:02}") for number in range(40)]
    snapshot = a_snapshot(*nodes, *zonal(*nodes), MADE, claim("ReadWriteMany"), *pods)
    runs = 0
    run_filters = cycle.run_filters

    def counted(*args: object, **kwargs: object) -> object:
        nonlocal runs
        runs += 1
        return run_filters(*args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(cycle, "run_filters", counted)
    assert scheduled(snapshot, pods[0])
    assert runs <= 1 + MAX_SHARING_PODS + 8 * (1 + MAX_SHARING_PODS)


ZONES = st.sampled_from(["", "a", "b"])
CPUS = st.integers(1, 4)


@given(
    nodes=st.lists(
        st.tuples(st.sampled_from(["a", "b"]), st.integers(1, 6), st.integers(0, 12)), min_size=1, max_size=5
    ),
    pods=st.lists(st.tuples(ZONES, CPUS), min_size=2, max_size=4),
)
def test_pods_of_a_volume_for_one_node_meet_wherever_they_can(
    nodes: Sequence[tuple[str, int, int]], pods: Sequence[tuple[str, int]]
) -> None:
    """Against a brute force: where some node takes all pods that have any node, the first goes to such a node."""
    offered = [
        a_node(name=f"n{number}", zone=zone, allocatable={"cpu": str(cpu + used)})
        for number, (zone, cpu, used) in enumerate(nodes)
    ]
    busy = [a_pod(name=f"busy-{n}", node=f"n{n}", requests={"cpu": str(used)}) for n, (_, _, used) in enumerate(nodes)]
    users = [user(f"p{number}", zone=zone, cpu=str(cpu)) for number, (zone, cpu) in enumerate(pods)]

    def takes(node: int, some: Sequence[tuple[str, int]]) -> bool:
        zone, cpu, _ = nodes[node]
        return all(wanted in ("", zone) for wanted, _ in some) and sum(amount for _, amount in some) <= cpu

    alive = [pod for pod in pods[1:] if any(takes(node, [pod]) for node in range(len(nodes)))]
    good = {f"n{node}" for node in range(len(nodes)) if takes(node, [pods[0], *alive])}
    chosen = scheduled(a_snapshot(*offered, *busy, MADE, claim(), *users), users[0])
    assert chosen in good or not good
