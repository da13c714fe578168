from collections.abc import Mapping
from typing import Any

import pytest

from builders import Body, a_pod
from mooring.api.pod_requests import ASSUMED_CPU, ASSUMED_MEMORY, requests_of
from mooring.api.quantity import QuantityError

MI = 1024 * 1024


def container(name: str = "c", *, sidecar: bool = False, **requests: str) -> Body:
    body: Body = {"name": name, "resources": {"requests": requests}}
    return body | {"restartPolicy": "Always"} if sidecar else body


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        pytest.param({}, {}, id="asks for nothing"),
        pytest.param(
            {"containers": [container(cpu="250m", memory="64Mi"), container(cpu="1")]},
            {"cpu": 1250, "memory": 64 * MI},
            id="containers add up",
        ),
        pytest.param(
            {"containers": [container(cpu="100m")], "init_containers": [container(cpu="1"), container(cpu="2")]},
            {"cpu": 2000},
            id="the largest init container counts",
        ),
        pytest.param(
            {"containers": [container(cpu="3")], "init_containers": [container(cpu="2", memory="1Mi")]},
            {"cpu": 3000, "memory": MI},
            id="each resource is compared by itself",
        ),
        pytest.param(
            {
                "containers": [container(cpu="1")],
                "init_containers": [container(cpu="500m", sidecar=True), container(cpu="2")],
            },
            {"cpu": 2500},
            id="an init container runs beside the sidecars started before it",
        ),
        pytest.param(
            {
                "containers": [container(cpu="1")],
                "init_containers": [container(cpu="1200m"), container(cpu="500m", sidecar=True)],
            },
            {"cpu": 1500},
            id="a sidecar started later runs beside the containers only",
        ),
        pytest.param(
            {"containers": [container(**{"example.com/gpu": "2", "ephemeral-storage": "1k"})]},
            {"example.com/gpu": 2, "ephemeral-storage": 1000},
            id="other resources in whole units",
        ),
        pytest.param(
            {"containers": [container(memory="1500m"), container(memory="1500m")]},
            {"memory": 3},
            id="fractions are added before they are rounded up",
        ),
        pytest.param({"containers": [container(cpu="0")]}, {}, id="zero is nothing"),
    ],
)
def test_a_pods_requests(spec: Mapping[str, Any], want: dict[str, int]) -> None:
    assert requests_of(a_pod(**spec)).amounts == want


def test_overhead_comes_on_top() -> None:
    from msgspec.structs import replace

    pod = a_pod(containers=[container(cpu="1")], init_containers=[container(cpu="2")])
    pod = replace(pod, spec=replace(pod.spec, overhead={"cpu": "100m", "memory": "10Mi"}))

    assert requests_of(pod).amounts == {"cpu": 2100, "memory": 10 * MI}


def test_numbers_in_json_are_amounts_too() -> None:
    assert requests_of(
        a_pod(containers=[{"name": "c", "resources": {"requests": {"cpu": 2, "memory": 0.5}}}])
    ).amounts == {
        "cpu": 2000,
        "memory": 1,
    }


@pytest.mark.parametrize(
    ("containers", "cpu", "memory"),
    [
        pytest.param(
            [container()], ASSUMED_CPU, ASSUMED_MEMORY, id="a container that asks for nothing weighs something"
        ),
        pytest.param([container(cpu="2")], 2000, ASSUMED_MEMORY, id="what it asks for counts"),
        pytest.param([container(cpu="0")], 0, ASSUMED_MEMORY, id="asking for zero is asking"),
        pytest.param([container(), container()], 2 * ASSUMED_CPU, 2 * ASSUMED_MEMORY, id="per container"),
    ],
)
def test_what_nodes_are_compared_by(containers: list[Body], cpu: int, memory: int) -> None:
    requests = requests_of(a_pod(containers=containers))

    assert (requests.scored_cpu, requests.scored_memory) == (cpu, memory)


def test_an_amount_that_is_none_is_an_error() -> None:
    with pytest.raises(QuantityError, match="one core"):
        requests_of(a_pod(requests={"cpu": "one core"}))
