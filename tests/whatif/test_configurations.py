"""Scheduler configurations side by side."""

from mooring.api.kinds import NODE
from mooring.scheduler.configuration import read
from mooring.whatif.configurations import ConfigurationComparison, DifferentNode, NamedProfiles, compare
from mooring.whatif.question import WhatIfQuestion
from mooring.whatif.results import SimulationResult
from mooring.whatif.run import answer
from support.builders import Body, pod_body
from support.whatif.questions import inventory, nodes, pool, provisioned_class, stateful_set


def configuration(strategy: str, *, scheduler: str = "default-scheduler") -> NamedProfiles:
    """How nodes are scored by free CPU; other scores are switched off."""
    scored = {"type": strategy, "resources": [{"name": "cpu", "weight": 1}]}
    others = ["NodeResourcesBalancedAllocation", "PodTopologySpread", "ImageLocality"]
    profile = {
        "schedulerName": scheduler,
        "plugins": {"multiPoint": {"disabled": [{"name": name} for name in others]}},
        "pluginConfig": [{"name": "NodeResourcesFit", "args": {"scoringStrategy": scored}}],
    }
    kind = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    return NamedProfiles(strategy, read(kind | {"profiles": [profile]}).profiles)


def compared(*documents: Body, given: tuple[NamedProfiles, ...]) -> ConfigurationComparison:
    there = inventory(documents)

    def simulate(each: NamedProfiles) -> SimulationResult:
        return answer(WhatIfQuestion(there.copied(), profiles=each.profiles))

    return compare(given, there, simulate)


SPREAD, PACK = configuration("LeastAllocated"), configuration("MostAllocated")


def new_pods(count: int, cpu: str = "1") -> list[Body]:
    made = [pod_body(name=f"web-{number}", requests={"cpu": cpu}) for number in range(count)]
    return [{field: value for field, value in body.items() if field != "status"} for body in made]


def test_packing_leaves_nodes_empty_and_spreading_does_not() -> None:
    found = compared(*nodes(3, zones="abc"), *new_pods(3), given=(SPREAD, PACK))
    spread, pack = found.configurations
    assert (spread.scheduled, spread.used_nodes, spread.empty_nodes, spread.zone_imbalance) == (3, 3, 0, 0)
    assert (pack.scheduled, pack.used_nodes, pack.empty_nodes, pack.zone_imbalance) == (3, 1, 2, 3)
    assert found.ok
    assert found.different


def test_packing_keeps_resources_for_a_large_pod() -> None:
    """Four small pods and one that needs a whole node: spread over both nodes, they leave none for it."""
    [large] = new_pods(1, cpu="4")
    large = large | {"metadata": {"name": "z-large", "namespace": "default"}}
    found = compared(*nodes(2), *new_pods(4), large, given=(SPREAD, PACK))
    spread, pack = found.configurations
    assert (spread.scheduled, spread.pending) == (4, 1)
    assert (pack.scheduled, pack.pending) == (5, 0)
    assert not found.ok
    assert found.verdict.startswith("LeastAllocated schedules 4 of 5 pods, MostAllocated schedules 5 of 5 pods; ")
    assert next(each for each in found.different if each.pod == "default/z-large").nodes[0] == ""


def test_same_configuration_gives_the_same_nodes() -> None:
    found = compared(*nodes(3), *new_pods(4), given=(SPREAD, SPREAD))
    assert found.different == ()
    assert found.verdict.endswith("; the nodes are the same.")


def test_free_capacity_is_summed_by_class() -> None:
    there = [*nodes(2), *provisioned_class(), pool("n1", "3Gi"), pool("n2", "2Gi"), stateful_set(replicas=2)]
    found = compared(*there, given=(SPREAD, PACK))
    assert [(each.free[0].storage_class, each.free[0].total) for each in found.configurations] == [("fast", "3Gi")] * 2
    assert {each.free[0].largest for each in found.configurations} <= {"1Gi", "2Gi", "3Gi"}


def test_profile_of_another_scheduler_is_used_for_its_pods() -> None:
    own = configuration("MostAllocated", scheduler="packer")
    pods = [pod | {"spec": pod["spec"] | {"schedulerName": "packer"}} for pod in new_pods(3)]
    there = inventory([*nodes(3), *pods])
    result = answer(WhatIfQuestion(there, profiles=SPREAD.profiles | own.profiles))
    assert len({each.node for each in result.placements}) == 1
    assert not any("packer" in note for note in result.notes)
    assert len(there.of(NODE)) == 3


def test_row_of_a_pod_has_a_node_per_configuration() -> None:
    found = compared(*nodes(2), *new_pods(2), given=(SPREAD, PACK))
    assert all(isinstance(each, DifferentNode) and len(each.nodes) == 2 for each in found.different)
