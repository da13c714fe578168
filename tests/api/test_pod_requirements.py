from collections.abc import Mapping
from typing import Any

import pytest

from mooring.api.pod_requirements import ASSUMED_CPU, ASSUMED_MEMORY, asks_less, requests_of, tolerates
from mooring.api.quantity import QuantityError
from mooring.api.views.core import Taint
from mooring.api.views.pods import Pod, Toleration
from support.builders import Body, a_pod

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
def test_scored_requests(containers: list[Body], cpu: int, memory: int) -> None:
    requests = requests_of(a_pod(containers=containers))

    assert (requests.scored_cpu, requests.scored_memory) == (cpu, memory)


def test_invalid_amount_is_an_error() -> None:
    with pytest.raises(QuantityError, match="one core"):
        requests_of(a_pod(requests={"cpu": "one core"}))


@pytest.mark.parametrize(
    ("whole", "want"),
    [
        pytest.param({"cpu": "2"}, {"cpu": 2000, "memory": MI}, id="instead of what the containers ask for"),
        pytest.param({"cpu": "100m", "memory": "3Mi"}, {"cpu": 100, "memory": 3 * MI}, id="also where it is less"),
        pytest.param({"hugepages-2Mi": "4Mi"}, {"cpu": 1500, "memory": MI, "hugepages-2Mi": 4 * MI}, id="large pages"),
        pytest.param({"example.com/gpu": "2"}, {"cpu": 1500, "memory": MI}, id="nothing else"),
    ],
)
def test_pod_level_requests_replace_the_sum(whole: Body, want: dict[str, int]) -> None:
    containers = [container(cpu="1", memory="1Mi"), container(cpu="500m")]
    pod = a_pod(containers=containers, more_spec={"resources": {"requests": whole}})

    assert requests_of(pod).amounts == want


def running(name: str = "c", *, has: Body, kept: Body | None = None) -> Body:
    return {"name": name, "resources": {"requests": has}} | ({} if kept is None else {"allocatedResources": kept})


INFEASIBLE = {"conditions": [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}]}
DEFERRED = {"conditions": [{"type": "PodResizePending", "status": "True", "reason": "Deferred"}]}


@pytest.mark.parametrize(
    ("status", "cpu"),
    [
        pytest.param({}, 1000, id="not running yet"),
        pytest.param({"containerStatuses": [{"name": "c"}]}, 1000, id="a node that does not say"),
        pytest.param({"containerStatuses": [running(has={"cpu": "1"}, kept={"cpu": "1"})]}, 1000, id="as it asks"),
        pytest.param({"containerStatuses": [running(has={"cpu": "3"}, kept={"cpu": "1"})]}, 3000, id="still has more"),
        pytest.param({"containerStatuses": [running(has={"cpu": "1"}, kept={"cpu": "2"})]}, 2000, id="more is kept"),
        pytest.param({"containerStatuses": [running(has={"cpu": "500m"})]}, 1000, id="shall have more"),
        pytest.param(DEFERRED | {"containerStatuses": [running(has={"cpu": "500m"})]}, 1000, id="may have more later"),
        pytest.param(INFEASIBLE | {"containerStatuses": [running(has={"cpu": "500m"})]}, 500, id="will not have more"),
        pytest.param(
            {"containerStatuses": [running("other", has={"cpu": "9"})]}, 1000, id="of a container that is gone"
        ),
        pytest.param({"initContainerStatuses": [running("side", has={"cpu": "2"})]}, 3000, id="a sidecar"),
        pytest.param({"initContainerStatuses": [running("init", has={"cpu": "2"})]}, 2000, id="an init container"),
    ],
)
def test_resized_container_counts_the_maximum(status: Body, cpu: int) -> None:
    first = [container("init"), container("side", sidecar=True)]
    pod = a_pod(containers=[container(cpu="1")], init_containers=first, more_status=status)

    assert requests_of(pod).amounts == {"cpu": cpu}


def in_opposite_directions(**status: object) -> Pod:
    """Container a asks for 3 CPUs and was allocated 1; container b the reverse."""
    statuses = [
        running("a", has={"cpu": "1"}, kept={"cpu": "1"}),
        running("b", has={"cpu": "3"}, kept={"cpu": "3"}),
    ]
    containers = [container("a", cpu="3"), container("b", cpu="1")]
    return a_pod(containers=containers, more_status={"containerStatuses": statuses} | status, node="n")


@pytest.mark.parametrize(
    ("pod", "cpu"),
    [
        pytest.param(in_opposite_directions(), 4000, id="two containers resized in opposite directions"),
        pytest.param(in_opposite_directions(**INFEASIBLE), 4000, id="and the node will never grant it"),
        pytest.param(
            in_opposite_directions(containerStatuses=[running("b", has={"cpu": "3"})]), 6000, id="one has no status yet"
        ),
        pytest.param(
            in_opposite_directions(resources={"requests": {"cpu": "5"}}, allocatedResources={"cpu": "2"}),
            5000,
            id="the node reports sums of the pod",
        ),
        pytest.param(
            in_opposite_directions(resources={"requests": {"cpu": "1"}}, allocatedResources={"cpu": "2"}, **INFEASIBLE),
            2000,
            id="sums of the pod, and a resize that will never be granted",
        ),
    ],
)
def test_a_resize_counts_the_largest_sum_of_the_pod(pod: Pod, cpu: int) -> None:
    assert requests_of(pod).amounts == {"cpu": cpu}


@pytest.mark.parametrize(
    ("before", "after", "less"),
    [
        pytest.param("2", "1", True, id="less"),
        pytest.param("1", "2", False, id="more"),
        pytest.param("1", "1000m", False, id="the same in other words"),
        pytest.param("1", "some", True, id="invalid amount"),
    ],
)
def test_asks_less(before: str, after: str, less: bool) -> None:
    assert asks_less(a_pod(requests={"cpu": before}), a_pod(requests={"cpu": after})) is less


def test_resize_frees_resources_when_the_node_applies_it() -> None:
    def pod(asks: str, has: str) -> Pod:
        return a_pod(containers=[container(cpu=asks)], more_status={"containerStatuses": [running(has={"cpu": has})]})

    assert not asks_less(pod("2", "2"), pod("1", "2"))
    assert asks_less(pod("1", "2"), pod("1", "1"))


@pytest.mark.parametrize(
    ("status", "cpu"),
    [
        pytest.param({}, 2000, id="not running yet"),
        pytest.param({"resources": {"requests": {"cpu": "3"}}}, 3000, id="still has more"),
        pytest.param({"resources": {"requests": {"cpu": "1"}}, "allocatedResources": {"cpu": "4"}}, 4000, id="kept"),
        pytest.param(INFEASIBLE | {"resources": {"requests": {"cpu": "1"}}}, 1000, id="will not have more"),
    ],
)
def test_resized_pod_level_requests(status: Body, cpu: int) -> None:
    asks = {"resources": {"requests": {"cpu": "2"}}}
    pod = a_pod(containers=[container(cpu="1")], more_spec=asks, more_status=status)
    assert requests_of(pod).amounts == {"cpu": cpu}
    assert asks_less(pod, a_pod(containers=[container(cpu="1")], more_spec=asks)) is (cpu > 2000)


@pytest.mark.parametrize(
    ("whole", "cpu", "memory"),
    [
        pytest.param({"cpu": "2"}, 2000, 64 * MI, id="nothing is assumed of what a container says"),
        pytest.param({"memory": "1Mi"}, ASSUMED_CPU * 2, MI, id="assumed for the rest"),
        pytest.param({"example.com/gpu": "1"}, ASSUMED_CPU * 2, ASSUMED_MEMORY + 64 * MI, id="of something else"),
    ],
)
def test_scored_requests_of_pod_level_resources(whole: Body, cpu: int, memory: int) -> None:
    pod = a_pod(containers=[container(memory="64Mi"), container()], more_spec={"resources": {"requests": whole}})
    requests = requests_of(pod)
    assert (requests.scored_cpu, requests.scored_memory) == (cpu, memory)


TAINT = Taint(key="disk", value="old", effect="NoSchedule")


@pytest.mark.parametrize(
    ("toleration", "want"),
    [
        pytest.param(Toleration(key="disk", value="old", effect="NoSchedule"), True, id="the very taint"),
        pytest.param(Toleration(key="disk", operator="Equal", value="old"), True, id="any effect"),
        pytest.param(Toleration(key="disk", operator="Exists"), True, id="any value"),
        pytest.param(Toleration(operator="Exists"), True, id="everything"),
        pytest.param(Toleration(key="disk", value="new"), False, id="another value"),
        pytest.param(Toleration(key="net", operator="Exists"), False, id="another key"),
        pytest.param(Toleration(key="disk", operator="Exists", effect="NoExecute"), False, id="another effect"),
        pytest.param(Toleration(key="disk", operator="Gt", value="old"), False, id="unknown operator"),
    ],
)
def test_tolerations(toleration: Toleration, want: bool) -> None:
    assert tolerates(toleration, TAINT) is want
