"""Arguments of plugins: the plugin they make behaves as asked, and what cannot be followed is refused by its field."""

from typing import Any

import pytest

from mooring.api.views.pods import Pod
from mooring.scheduler.configuration import API_VERSION, KIND, ConfigurationError, PluginConfig, read, read_arguments
from mooring.scheduler.framework.cycle import Profile
from mooring.scheduler.framework.interface import Filter, Score
from mooring.scheduler.registry import DEFAULT, KUBE_SCHEDULER
from support.builders import a_capacity, a_claim, a_class, a_driver, a_node, a_pod
from support.builders.drivers import DRIVER
from support.scheduler.snapshots import a_snapshot, rejected, scored

GPU = "example.com/gpu"


def made(name: str, args: dict[str, Any], base: Profile = DEFAULT) -> Score:
    profiles = [{"pluginConfig": [{"name": name, "args": args}]}]
    configuration = read({"apiVersion": API_VERSION, "kind": KIND, "profiles": profiles}, base=base)
    (profile,) = configuration.profiles.values()
    (plugin,) = (one for one in profile.scorers if one.name == name)
    return plugin


def strategy(kind: str, **more: object) -> dict[str, Any]:
    return {"kind": "NodeResourcesFitArgs", "scoringStrategy": {"type": kind} | more}


def a_gpu_pod() -> Pod:
    return a_pod(requests={"cpu": "1", "memory": "1Gi", GPU: "1"})


#: Two of three CPUs, three of four Gi, one of four GPUs taken with the pod.
SNAPSHOT = a_snapshot(
    a_node(name="n", allocatable={"cpu": "3", "memory": "4Gi", GPU: "4"}),
    a_pod(name="there", node="n", requests={"cpu": "1", "memory": "2Gi"}),
)

RATIO = {"shape": [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]}


@pytest.mark.parametrize(
    ("args", "score"),
    [
        pytest.param({}, (33 + 25) // 2, id="without arguments, the emptier the better"),
        pytest.param(strategy("LeastAllocated"), (33 + 25) // 2, id="least"),
        pytest.param(strategy("MostAllocated"), (66 + 75) // 2, id="most"),
        pytest.param(
            strategy("MostAllocated", resources=[{"name": "cpu", "weight": 3}, {"name": "memory", "weight": 1}]),
            (3 * 66 + 75) // 4,
            id="weighed",
        ),
        pytest.param(strategy("LeastAllocated", resources=[{"name": GPU}]), 75, id="an extended resource alone"),
        pytest.param(
            strategy("RequestedToCapacityRatio", requestedToCapacityRatio=RATIO), 71, id="a ramp, rounded half up"
        ),
        pytest.param(
            strategy("RequestedToCapacityRatio", requestedToCapacityRatio=RATIO, resources=[{"name": "cpu"}]),
            66,
            id="a ramp over one resource",
        ),
    ],
)
def test_strategies(args: dict[str, Any], score: int) -> None:
    assert scored(made("NodeResourcesFit", args), a_gpu_pod(), SNAPSHOT) == {"n": score}


def test_an_extended_resource_counts_only_for_pods_that_ask_for_it() -> None:
    plugin = made("NodeResourcesFit", strategy("LeastAllocated", resources=[{"name": "cpu"}, {"name": GPU}]))
    assert scored(plugin, a_pod(requests={"cpu": "1"}), SNAPSHOT) == {"n": 33}


@pytest.mark.parametrize("ignored", [{"ignoredResources": [GPU]}, {"ignoredResourceGroups": ["example.com"]}])
def test_ignored_resources_are_not_checked(ignored: dict[str, Any]) -> None:
    pod, snapshot = a_pod(requests={GPU: "9", "cpu": "9"}), SNAPSHOT
    plugins, _ = read_arguments("pluginConfig", [PluginConfig("NodeResourcesFit", ignored)])
    plugin = plugins["NodeResourcesFit"]
    assert isinstance(plugin, Filter)
    assert rejected(plugin, pod, snapshot) == {"Insufficient cpu": {"n"}}


def test_balance_over_other_resources() -> None:
    plugin = made("NodeResourcesBalancedAllocation", {"resources": [{"name": "cpu"}, {"name": GPU}]})
    # 1/3 and 0/4 before, 2/3 and 1/4 with the pod.
    before, after = int((1 - (1 / 3) / 2) * 100), int((1 - (2 / 3 - 1 / 4) / 2) * 100)
    assert scored(plugin, a_gpu_pod(), SNAPSHOT) == {"n": 50 + (50 + after - before) // 2}


def test_a_shape_makes_volumes_count_as_in_kube_scheduler() -> None:
    assert made("VolumeBinding", {"shape": RATIO["shape"]}).weight == 1
    assert made("VolumeBinding", {"capacityPolicy": "kube-scheduler"}).weight == 1
    assert made("VolumeBinding", {}).weight == 3


@pytest.mark.parametrize(
    ("args", "weight"),
    [
        pytest.param({}, 1, id="no arguments"),
        pytest.param({"bindTimeoutSeconds": 10}, 1, id="arguments that do not concern scores"),
        pytest.param({"capacityPolicy": "Pack"}, 3, id="a policy of ours"),
    ],
)
def test_the_base_profile_scores_unless_arguments_say_otherwise(args: dict[str, Any], weight: int) -> None:
    assert made("VolumeBinding", args, KUBE_SCHEDULER).weight == weight


@pytest.mark.req("C15.preference")
def test_volumes_are_made_where_much_is_free_or_where_little_is() -> None:
    driver = a_driver(tracks_capacity=True)
    rooms = [
        a_capacity(name=node, capacity=size, topology={"matchLabels": {"kubernetes.io/hostname": node}})
        for node, size in (("n1", "10Gi"), ("n2", "100Gi"))
    ]
    objects = (a_node(name="n1"), a_node(name="n2"), a_class(name="made", provisioner=DRIVER), driver, *rooms)
    snapshot = a_snapshot(*objects, a_claim(name="c", storage_class="made", size="5Gi"))
    pod = a_pod(claims=["c"])
    spread = scored(made("VolumeBinding", {"capacityPolicy": "Spread"}), pod, snapshot)
    pack = scored(made("VolumeBinding", {"capacityPolicy": "Pack"}), pod, snapshot)
    assert spread == scored(made("VolumeBinding", {}), pod, snapshot)
    assert spread is not None
    assert pack is not None
    assert spread["n2"] > spread["n1"]
    assert pack["n1"] > pack["n2"]


@pytest.mark.parametrize(
    ("name", "args", "complaint"),
    [
        pytest.param(
            "VolumeBinding",
            {"capacityPolicy": "Pack", "shape": RATIO["shape"]},
            "args.capacityPolicy: cannot be combined",
            id="two ways to say it",
        ),
        pytest.param("VolumeBinding", {"capacityPolicy": "Heap"}, "args.capacityPolicy: ", id="no policy"),
        pytest.param(
            "NodeResourcesFit", strategy("Tetris"), "scoringStrategy.type: 'Tetris' must be one of", id="no strategy"
        ),
        pytest.param(
            "NodeResourcesFit",
            strategy("LeastAllocated", resources=[{"name": "cpu", "weight": 101}]),
            "scoringStrategy.resources[0].weight: must be from 1 to 100",
            id="a weight beyond all others",
        ),
        pytest.param(
            "NodeResourcesFit", strategy("RequestedToCapacityRatio"), "at least one point", id="a ramp without points"
        ),
        pytest.param(
            "NodeResourcesBalancedAllocation",
            {"resources": [{"name": "cpu", "weight": 2}]},
            "resources[0].weight: 2 is not supported; only 1 is",
            id="a weight in the balance",
        ),
        pytest.param("NodeResourcesFit", {"kind": "VolumeBindingArgs"}, "args.kind: ", id="arguments of another"),
        pytest.param("NodeResourcesFit", {"apiVersion": "v2"}, "args.apiVersion: ", id="another version"),
        pytest.param("NodeResourcesFit", {"apiVersion": API_VERSION, "frob": 1}, "args: ", id="an unknown field"),
        pytest.param("NodeName", {}, "arguments of NodeName are not supported", id="a plugin without arguments"),
    ],
)
def test_what_cannot_be_followed_is_refused(name: str, args: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        read_arguments("pluginConfig", [PluginConfig(name, args)])
    assert complaint in str(refused.value)
