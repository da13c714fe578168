"""Our whole stack with the rights of its manifests on their API server, in fair weather and in foul.

One installation for all tests of this module; each clears up behind itself. In foul weather a process may end with a
reason and is started again, as a kubelet would; nothing may be lost, given twice, or left waiting.
"""

import json
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from builders import Body, claim_body, pod_body
from conformance.control_plane import ControlPlane
from conformance.played_nodes import NODES, PLACES
from conformance.stormy_stack import MADE, PARTS, Stack, stormy_stack
from mooring.hostpath.layout import DRIVER_NAME
from scenarios import crowd, design_list

#: Enough for the weather to strike in the middle of it.
CROWD = 20


@pytest.fixture(scope="module")
def stack(start_kube: Callable[[], ControlPlane], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    folder: Path = tmp_path_factory.mktemp("s")
    with stormy_stack(start_kube(), folder) as running:
        yield running


@pytest.fixture(autouse=True)
def cleared(stack: Stack) -> Iterator[None]:
    """One test's failure shall not be the next one's."""
    yield
    stack.clear()


def listed(case: design_list.Case) -> list[Body]:
    """A case of the design's list; what it has made on demand is made by our driver."""
    return [
        {**body, "provisioner": DRIVER_NAME} if body["kind"] == "StorageClass" and case.name == "fallback" else body
        for body in case.objects
    ]


@pytest.mark.req("T32", "T43")
def test_the_design_list_runs_with_these_rights_and_no_others(stack: Stack) -> None:
    stack.apply([body for case in design_list.CASES for body in listed(case)])
    stack.until(lambda: design_list.placed(stack.items("pods")))
    design_list.assert_as_designed(stack.items("pods"), stack.items("pvc"), stack.items("pv"))
    for part in PARTS:
        assert "is forbidden" not in stack.pods.log(part)
        assert "Traceback" not in stack.pods.log(part)
    assert stack.pods.restarts == 0


def with_volume(name: str, size: str) -> list[Body]:
    return [claim_body(name=name, storage_class=MADE, size=size), pod_body(name=name, claims=[name])]


@pytest.mark.req("C6")
def test_capacity_decides(stack: Stack) -> None:
    """Ten gibibytes on two nodes each, claims of six: one each, and the third waits until there is room."""
    for name in ("first", "second", "third"):
        stack.apply(with_volume(name, "6Gi"))
    stack.until(lambda: sum(bool(stack.node_of(name)) for name in ("first", "second", "third")) == 2)
    there = {name: stack.node_of(name) for name in ("first", "second", "third") if stack.node_of(name)}
    assert sorted(there.values()) == sorted(PLACES)
    [waits] = {"first", "second", "third"} - there.keys()
    stack.until(lambda: "enough free storage" in json.dumps(stack.items("pods")))
    leaver, freed = next(iter(there.items()))
    stack.kube.kubectl("delete", "pod", leaver, "--force", "--grace-period=0")
    stack.kube.kubectl("delete", "pvc", leaver, "--wait=false")
    stack.until(lambda: stack.node_of(waits) == freed)


@pytest.mark.req("R1", "T38")
def test_a_pod_that_fits_half_on_one_node_runs_on_the_other(stack: Stack) -> None:
    """The scheduler is told nothing of room, and can use one node only at first."""
    blind = {"spec": {"storageCapacity": False}}
    small, large = PLACES
    stack.kube.kubectl("patch", "csidriver", DRIVER_NAME, "--patch", json.dumps(blind))
    stack.kube.kubectl("cordon", large, NODES[-1])
    stack.apply(with_volume("first", "4Gi"))
    stack.until(lambda: stack.node_of("first") == small)
    names = ("left", "right")
    claims = [claim_body(name=name, storage_class=MADE, size="4Gi") for name in names]
    stack.apply([*claims, pod_body(name="pair", claims=names)])
    stack.until(lambda: "ProvisioningRolledBack" in stack.reasons())
    stack.kube.kubectl("uncordon", large)
    stack.until(lambda: stack.node_of("pair") == large)
    stack.kube.kubectl("uncordon", NODES[-1])
    stack.kube.kubectl("patch", "csidriver", DRIVER_NAME, "--patch", '{"spec": {"storageCapacity": true}}')


def restart(kube: ControlPlane) -> None:
    kube.stop_apiserver(signal.SIGKILL)
    kube.start_apiserver()


def throttle(kube: ControlPlane) -> None:
    """Four reads and two writes at a time; whoever comes besides is told 429."""
    kube.stop_apiserver()
    few = ("--max-requests-inflight=4", "--max-mutating-requests-inflight=2")
    kube.start_apiserver("--enable-priority-and-fairness=false", *few)


def refused_some(stack: Stack) -> bool:
    return 'code="429"' in stack.kube.kubectl("get", "--raw", "/metrics")


def listed_again(stack: Stack) -> bool:
    return "too old resource version" in stack.pods.log("scheduler")


def lost_touch(stack: Stack) -> bool:
    return "watch interrupted" in stack.pods.log("scheduler")


@pytest.mark.parametrize(
    ("strike", "struck"),
    [
        pytest.param(restart, lost_touch, id="the API server is killed"),
        pytest.param(ControlPlane.restart_etcd, lost_touch, id="the database restarts"),
        pytest.param(ControlPlane.forget_history, listed_again, id="history is forgotten"),
        pytest.param(throttle, refused_some, id="the API server throttles"),
    ],
)
@pytest.mark.req("T32.weather", "T35")
def test_everybody_is_placed_in_foul_weather(
    stack: Stack, strike: Callable[[ControlPlane], None], struck: Callable[[Stack], bool]
) -> None:
    bodies = crowd.manifest("crowd", pods=CROWD, volume_count=CROWD)
    stack.apply(bodies[: -CROWD // 2])
    strike(stack.kube)
    # The second half comes before anybody has recovered.
    stack.apply(bodies[-CROWD // 2 :])

    def all_run() -> bool:
        return [pod["status"]["phase"] for pod in stack.items("pods")] == ["Running"] * CROWD

    stack.until(all_run)
    crowd.assert_one_volume_each("crowd", CROWD, stack.items("pods"), stack.items("pvc"), stack.items("pv"))
    has_struck = struck(stack)
    if strike is throttle:
        restart(stack.kube)
    assert has_struck
    for part in PARTS:
        assert "Traceback" not in stack.pods.log(part)


@pytest.mark.req("T35.fail-over")
def test_the_second_scheduler_takes_over_under_load(stack: Stack) -> None:
    """The first is killed while pods are still coming: some have their node, some are halfway, some nobody has seen."""
    bodies = crowd.manifest("crowd", pods=2 * CROWD, volume_count=2 * CROWD)
    stack.apply(bodies[: -2 * CROWD])
    # The weather before may have cost the last one its lease.
    stack.until(lambda: len(stack.pods.leaders("scheduler")) == 1)
    [leader] = stack.pods.leaders("scheduler")
    with ThreadPoolExecutor(max_workers=1) as beside:
        applied = beside.submit(stack.apply, bodies[-2 * CROWD :])
        stack.until(lambda: any(pod["spec"].get("nodeName") for pod in stack.items("pods")))
        leader.stop(signal.SIGKILL)
        applied.result()

    def all_run() -> bool:
        return [pod["status"]["phase"] for pod in stack.items("pods")] == ["Running"] * 2 * CROWD

    stack.until(all_run)
    crowd.assert_one_volume_each("crowd", 2 * CROWD, stack.items("pods"), stack.items("pvc"), stack.items("pv"))
