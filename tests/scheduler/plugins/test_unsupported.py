import msgspec

from builders import a_pod, pod_body
from mooring.api.kinds import POD
from mooring.scheduler import changes
from mooring.scheduler.plugins.unsupported import REASON, Unsupported
from scheduler.snapshots import a_snapshot, refused, wakes


def test_devices_are_refused_by_their_name() -> None:
    body = pod_body(uid="u", version="1")
    body["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimName": "gpu-0"}]
    pod = POD.decode(msgspec.json.encode(body))
    assert refused(Unsupported(), pod, a_snapshot()) == REASON


def test_other_pods_are_none_of_its_business() -> None:
    assert refused(Unsupported(), a_pod(requests={"cpu": "1"}), a_snapshot()) is None


def test_nothing_but_the_pod_itself_changes_its_mind() -> None:
    pod = a_pod(name="p", node="n")
    assert wakes(Unsupported(), pod, changes.of_pod(pod, a_pod(name="p", node="n", labels={"a": "b"})))
    other = a_pod(name="q", node="n")
    assert not wakes(Unsupported(), pod, changes.of_pod(other, a_pod(name="q", node="n", labels={"a": "b"})))
