"""All of Mooring with the permissions of its manifests on kube-apiserver, with and without failures.

One installation for all tests of this module; each deletes its objects. During failures a process may exit with a
reason and is restarted, as by a kubelet; no volume may be lost or bound twice, and no pod may stay pending.
"""

import json
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from mooring.hostpath.records import DRIVER_NAME
from support.builders import Body, claim_body, pod_body
from support.conformance.control_plane import ControlPlane
from support.conformance.mooring_stack import MADE, PARTS, Stack, mooring_stack
from support.conformance.simulated_nodes import NODES, PLACES
from support.scenarios import crowd, design_list

#: Enough pods for the failure to occur while they are scheduled.
PODS = 20


@pytest.fixture(scope="module")
def stack(start_kube: Callable[[], ControlPlane], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    folder: Path = tmp_path_factory.mktemp("s")
    with mooring_stack(start_kube(), folder) as running:
        yield running


@pytest.fixture(autouse=True)
def cleared(stack: Stack) -> Iterator[None]:
    """Delete all objects of a test, so that its failure does not affect the next one."""
    yield
    stack.clear()


def listed(case: design_list.Case) -> list[Body]:
    """A case of the design's list; its dynamic volumes are provisioned by our driver."""
    return [
        {**body, "provisioner": DRIVER_NAME} if body["kind"] == "StorageClass" and case.name == "fallback" else body
        for body in case.objects
    ]


@pytest.mark.req("T32.least-rights", "T43.upstream")
@pytest.mark.version_matrix("kube-apiserver", "all components", "installed from the manifests, least privileges")
def test_design_list_runs_with_least_privileges(stack: Stack) -> None:
    stack.apply([body for case in design_list.CASES for body in listed(case)])
    stack.until(lambda: design_list.placed(stack.items("pods")))
    design_list.assert_as_designed(stack.items("pods"), stack.items("pvc"), stack.items("pv"))
    for part in PARTS:
        assert "is forbidden" not in stack.pods.log(part)
        assert "Traceback" not in stack.pods.log(part)
    assert stack.pods.restarts == 0


def with_volume(name: str, size: str) -> list[Body]:
    return [claim_body(name=name, storage_class=MADE, size=size), pod_body(name=name, claims=[name])]


@pytest.mark.req("C6.upstream")
def test_capacity_determines_the_node(stack: Stack) -> None:
    """Two nodes with 10 GiB each, claims of 6 GiB: one pod each, and the third is pending until capacity is freed."""
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


@pytest.mark.req("R1.rolled-back", "T38.real-server")
def test_pod_runs_after_rollback_on_first_node(stack: Stack) -> None:
    """The scheduler ignores capacity, and only one node is schedulable at first."""
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
    """Four concurrent reads and two writes; further requests get 429."""
    kube.stop_apiserver()
    few = ("--max-requests-inflight=4", "--max-mutating-requests-inflight=2")
    kube.start_apiserver("--enable-priority-and-fairness=false", *few)


def has_throttled(stack: Stack) -> bool:
    return 'code="429"' in stack.kube.kubectl("get", "--raw", "/metrics")


def has_relisted(stack: Stack) -> bool:
    return "too old resource version" in stack.pods.log("scheduler")


def has_disconnected(stack: Stack) -> bool:
    return "watch interrupted" in stack.pods.log("scheduler")


@pytest.mark.parametrize(
    ("inject_failure", "has_failed"),
    [
        pytest.param(restart, has_disconnected, id="API server killed"),
        pytest.param(ControlPlane.restart_etcd, has_disconnected, id="etcd restarts"),
        pytest.param(ControlPlane.forget_history, has_relisted, id="history compacted"),
        pytest.param(throttle, has_throttled, id="API server throttles"),
    ],
)
@pytest.mark.req("T32.weather", "T35.failover")
def test_all_pods_run_after_control_plane_failure(
    stack: Stack, inject_failure: Callable[[ControlPlane], None], has_failed: Callable[[Stack], bool]
) -> None:
    bodies = crowd.manifest("crowd", pods=PODS, volume_count=PODS)
    stack.apply(bodies[: -PODS // 2])
    inject_failure(stack.kube)
    # The second half is created before any component has recovered.
    stack.apply(bodies[-PODS // 2 :])

    def all_run() -> bool:
        return [pod["status"]["phase"] for pod in stack.items("pods")] == ["Running"] * PODS

    stack.until(all_run)
    crowd.assert_one_volume_each("crowd", PODS, stack.items("pods"), stack.items("pvc"), stack.items("pv"))
    failed = has_failed(stack)
    if inject_failure is throttle:
        restart(stack.kube)
    assert failed
    for part in PARTS:
        assert "Traceback" not in stack.pods.log(part)


@pytest.mark.req("T35.failover")
def test_second_scheduler_takes_over_under_load(stack: Stack) -> None:
    """The first is killed while pods are created: some are bound, some are being bound, some not observed yet."""
    bodies = crowd.manifest("crowd", pods=2 * PODS, volume_count=2 * PODS)
    stack.apply(bodies[: -2 * PODS])
    # The last leader may have lost its lease in an earlier failure.
    stack.until(lambda: len(stack.pods.leaders("scheduler")) == 1)
    [leader] = stack.pods.leaders("scheduler")
    with ThreadPoolExecutor(max_workers=1) as beside:
        applied = beside.submit(stack.apply, bodies[-2 * PODS :])
        stack.until(lambda: any(pod["spec"].get("nodeName") for pod in stack.items("pods")))
        leader.stop(signal.SIGKILL)
        applied.result()

    def all_run() -> bool:
        return [pod["status"]["phase"] for pod in stack.items("pods")] == ["Running"] * 2 * PODS

    stack.until(all_run)
    crowd.assert_one_volume_each("crowd", 2 * PODS, stack.items("pods"), stack.items("pvc"), stack.items("pv"))
