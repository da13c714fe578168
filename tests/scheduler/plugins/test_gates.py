import msgspec
import pytest

from mooring.api.kinds import POD
from mooring.scheduler import cluster_events
from mooring.scheduler.plugins.gates import DEVICES, GROUP, Unsupported
from support.builders import a_pod, pod_body
from support.scheduler.snapshots import a_snapshot, refused, requeues


@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [
        pytest.param("resourceClaims", [{"name": "gpu", "resourceClaimName": "gpu-0"}], DEVICES, id="devices"),
        pytest.param("schedulingGroup", {"podGroupName": "training"}, GROUP, id="a pod of a group is not placed alone"),
    ],
)
def test_what_is_not_supported_is_refused_by_its_name(field: str, value: object, reason: str) -> None:
    body = pod_body(uid="u", version="1")
    body["spec"][field] = value
    pod = POD.decode(msgspec.json.encode(body))
    assert refused(Unsupported(), pod, a_snapshot()) == reason
    assert field in reason


def test_other_pods_are_none_of_its_business() -> None:
    assert refused(Unsupported(), a_pod(requests={"cpu": "1"}), a_snapshot()) is None


def test_nothing_but_the_pod_itself_changes_its_mind() -> None:
    pod = a_pod(name="p", node="n")
    assert requeues(Unsupported(), pod, cluster_events.pod_event(pod, a_pod(name="p", node="n", labels={"a": "b"})))
    other = a_pod(name="q", node="n")
    assert not requeues(
        Unsupported(), pod, cluster_events.pod_event(other, a_pod(name="q", node="n", labels={"a": "b"}))
    )
