import msgspec
import pytest

from builders import a_pod
from mooring.api.views.pod import Pod
from mooring.scheduler.kubelet_rejection import KubeletRejection, in_words, rejection_of


def ended(reason: str, *, phase: str = "Failed", node: str = "n1") -> Pod:
    pod = a_pod(node=node)
    status = msgspec.structs.replace(pod.status, phase=phase, reason=reason, message="what the kubelet said")
    return msgspec.structs.replace(pod, status=status)


@pytest.mark.parametrize(
    ("reason", "race", "means"),
    [
        pytest.param("OutOfcpu", True, "there was not enough cpu left when it arrived", id="processors"),
        pytest.param("OutOfexample.com/gpu", True, "not enough example.com/gpu left", id="something extended"),
        pytest.param("NodePorts", True, "a port of the node", id="a port"),
        pytest.param("UnexpectedAdmissionError", True, "devices", id="devices"),
        pytest.param("NodeAffinity", False, "labels of the node", id="the node was relabelled"),
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
            "pods of other schedulers are on the node (1 of batch, 3 of default-scheduler)",
            id="others place pods there",
        ),
        pytest.param("OutOfcpu", {}, "less room than its status says", id="nobody else does"),
        pytest.param("NodeAffinity", {"default-scheduler": 3}, "the pod stays failed", id="the node changed"),
    ],
)
def test_people_are_told_what_happened_and_what_comes_next(reason: str, others: dict[str, int], says: str) -> None:
    told = in_words(KubeletRejection("n1", reason, ""), others)
    assert told.startswith(f"node n1 turned the pod down ({reason}): ")
    assert says in told
    assert told.endswith("its owner makes another, which is placed anew")
    assert ("other schedulers" in told) is (bool(others) and reason == "OutOfcpu")
