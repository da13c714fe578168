import pytest
from msgspec.structs import replace

from builders import Body, a_node, a_pod
from mooring.api.views.pod import Pod, ResourceClaim
from mooring.scheduler import changes
from mooring.scheduler.plugins.unsupported import DEVICES, HOST_PORTS, SPREAD, Unsupported, refusal
from scheduler.snapshots import a_snapshot, refused, wakes


def with_port(**port: int) -> Body:
    return {"name": "main", "ports": [{"containerPort": 80} | port]}


def spread(when: str) -> list[Body]:
    return [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": when}]


DEVICE_POD = a_pod()
DEVICE_POD = replace(DEVICE_POD, spec=replace(DEVICE_POD.spec, resource_claims=(ResourceClaim(name="gpu"),)))


@pytest.mark.parametrize(
    ("pod", "want"),
    [
        pytest.param(a_pod(), None, id="an ordinary pod"),
        pytest.param(a_pod(containers=[with_port()]), None, id="a container port"),
        pytest.param(a_pod(topology_spread=spread("ScheduleAnyway")), None, id="spread that is only wished for"),
        pytest.param(a_pod(topology_spread=spread("DoNotSchedule")), refusal(SPREAD), id="spread that is required"),
        pytest.param(a_pod(containers=[with_port(hostPort=80)]), refusal(HOST_PORTS), id="a host port"),
        pytest.param(a_pod(init_containers=[with_port(hostPort=80)]), refusal(HOST_PORTS), id="of an init container"),
        pytest.param(DEVICE_POD, refusal(DEVICES), id="a device claim"),
        pytest.param(
            a_pod(topology_spread=spread("DoNotSchedule"), containers=[with_port(hostPort=80)]),
            refusal(SPREAD, HOST_PORTS),
            id="everything it asks for is named",
        ),
    ],
)
def test_what_is_not_there_yet_is_refused_out_loud(pod: Pod, want: str | None) -> None:
    assert refused(Unsupported(), pod, a_snapshot(a_node())) == want


def test_nothing_in_the_cluster_wakes_such_a_pod() -> None:
    assert not wakes(Unsupported(), a_pod(), changes.of_node(None, a_node()))
    assert not wakes(Unsupported(), a_pod(), changes.of_pod(None, a_pod(name="other", node="n")))
