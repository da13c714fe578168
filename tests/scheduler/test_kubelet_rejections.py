"""Pods that their node turned down: counted and told, once, if this scheduler chose the node."""

from typing import Final

import msgspec
import pytest

from mooring.api.kinds import NODE, POD
from mooring.api.views.pods import Pod
from mooring.scheduler.kubelet_rejections import REJECTED, KubeletRejection, rejection_message, rejection_of
from scheduler.test_metrics import Scraped, scraped
from support.builders import a_pod, node_body, pod_body
from support.scheduler.cluster import SmallWorld


def ended(reason: str, *, phase: str = "Failed", node: str = "n1") -> Pod:
    pod = a_pod(node=node)
    status = msgspec.structs.replace(pod.status, phase=phase, reason=reason, message="what the kubelet said")
    return msgspec.structs.replace(pod, status=status)


@pytest.mark.parametrize(
    ("reason", "race", "means"),
    [
        pytest.param("OutOfcpu", True, "not enough cpu at admission", id="processors"),
        pytest.param("OutOfexample.com/gpu", True, "not enough example.com/gpu at admission", id="something extended"),
        pytest.param("NodePorts", True, "a host port", id="a port"),
        pytest.param("UnexpectedAdmissionError", True, "devices", id="devices"),
        pytest.param("NodeAffinity", False, "the node's labels", id="the node was relabelled"),
        pytest.param("NodeShutdown", False, "shut down", id="the node goes"),
    ],
)
def test_what_a_rejection_means(reason: str, race: bool, means: str) -> None:
    rejection = rejection_of(ended(reason))
    assert rejection is not None
    assert (rejection.node, rejection.reason, rejection.message) == ("n1", reason, "what the kubelet said")
    assert rejection.lost_a_race is race
    assert means in rejection.meaning


@pytest.mark.parametrize(
    "pod",
    [
        pytest.param(ended("Evicted"), id="evicted while it ran"),
        pytest.param(ended("DeadlineExceeded"), id="took too long"),
        pytest.param(ended(""), id="failed by itself"),
        pytest.param(ended("OutOfcpu", phase="Running"), id="runs"),
        pytest.param(ended("OutOfcpu", node=""), id="has no node"),
    ],
)
def test_other_ends_are_no_rejections(pod: Pod) -> None:
    assert rejection_of(pod) is None


@pytest.mark.parametrize(
    ("reason", "others", "says"),
    [
        pytest.param(
            "OutOfcpu",
            {"default-scheduler": 3, "batch": 1},
            "pods of other schedulers run there (1 of batch, 3 of default-scheduler)",
            id="others place pods there",
        ),
        pytest.param("OutOfcpu", {}, "less allocatable than its status says", id="no other scheduler"),
        pytest.param("NodeAffinity", {"default-scheduler": 3}, "the pod stays failed", id="the node changed"),
    ],
)
def test_rejection_message(reason: str, others: dict[str, int], says: str) -> None:
    told = rejection_message(KubeletRejection("n1", reason, ""), others)
    assert told.startswith(f"kubelet of node n1 rejected the pod ({reason}): ")
    assert says in told
    assert told.endswith("its owner creates another, which is scheduled again")
    assert ("other schedulers" in told) is (bool(others) and reason == "OutOfcpu")


TOTAL: Final = "mooring_scheduler_kubelet_rejections_total"
OUT_OF_CPU: Final = {"status": {"phase": "Failed", "reason": "OutOfcpu", "message": "Node didn't have enough cpu"}}


def counted(seen: Scraped, reason: str = "OutOfcpu") -> float:
    return seen.counted(TOTAL, reason=reason)


def test_kubelet_rejection_is_counted_and_reported() -> None:
    async def scenario(world: SmallWorld, seen: Scraped) -> None:
        world.put(NODE, node_body(name="n1"))
        world.put(POD, pod_body(name="theirs", node="n1", scheduler="another"))
        world.put(POD, pod_body(name="ours", scheduler="second"))
        await world.settle()
        world.change(POD, "ours", OUT_OF_CPU, subresource="status")
        await world.settle()
        # It stays failed, and is one rejection however often it is seen.
        world.change(POD, "ours", {"metadata": {"labels": {"seen": "again"}}})
        await world.settle()
        assert counted(seen) == 1
        [told] = world.recorder.messages(REJECTED)
        assert told == (
            "kubelet of node n1 rejected the pod (OutOfcpu): not enough cpu at admission; "
            "pods of other schedulers run there (1 of another) and may have got the same resources; "
            "the pod stays failed; its owner creates another, which is scheduled again"
        )

    scraped(scenario)


@pytest.mark.parametrize("end", ["runs first", "was put there by hand", "is another scheduler's", "goes"])
def test_other_pods_are_none_of_its_business(end: str) -> None:
    async def scenario(world: SmallWorld, seen: Scraped) -> None:
        world.put(NODE, node_body(name="n1"))
        by_hand = end != "runs first" and end != "goes"
        scheduler = "another" if end == "is another scheduler's" else "default-scheduler"
        world.put(POD, pod_body(name="p", node="n1" if by_hand else "", scheduler=scheduler))
        await world.settle()
        if end == "runs first":
            world.change(POD, "p", {"status": {"phase": "Running"}}, subresource="status")
            await world.settle()
        if end == "goes":
            world.delete(POD, "p")
        else:
            world.change(POD, "p", OUT_OF_CPU, subresource="status")
        await world.settle()
        assert counted(seen) == 0
        assert world.recorder.messages(REJECTED) == []

    scraped(scenario)


def test_resources_of_rejected_pod_are_released() -> None:
    """The next pod is judged by what is really there: the other scheduler's pod, and not the one turned down."""

    async def scenario(world: SmallWorld, seen: Scraped) -> None:
        world.put(NODE, node_body(name="n1", allocatable={"cpu": "4"}))
        world.put(POD, pod_body(name="first", requests={"cpu": "3"}))
        await world.settle()
        world.put(POD, pod_body(name="theirs", node="n1", scheduler="another", requests={"cpu": "2"}))
        world.change(POD, "first", OUT_OF_CPU, subresource="status")
        await world.settle()
        world.put(POD, pod_body(name="large", requests={"cpu": "3"}))
        world.put(POD, pod_body(name="small", requests={"cpu": "2"}))
        await world.settle()
        assert (world.node_of("large"), world.node_of("small")) == ("", "n1")

    scraped(scenario)
