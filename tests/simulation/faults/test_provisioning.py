"""Pods with one to four claims, on existing and on provisioned volumes, under faults drawn from seeds."""

from collections.abc import Iterable, Sequence
from functools import partial

import pytest

from mooring.api import well_known
from mooring.api.kinds import CLAIM, POD
from mooring.cluster.bootstrap import Layout
from support.builders import claim_body, class_body, pod_body
from support.simulation.fault_scenario import FaultScenario, check
from support.simulation.faults import Deletion, FaultPlan, draw
from support.simulation.history import Written
from support.simulation.invariants import Facts, Subject, Violation, reaches
from support.simulation.mixtures import TWO_OF_EACH, WITH_PROVISIONER, fitting_mixture, mixture
from support.simulation.scenarios import create_objects, seeds


@pytest.mark.req("T15.many", "T43.several-claims")
@pytest.mark.parametrize("seed", seeds(8))
def test_all_pods_run_with_volumes_on_every_node(seed: int) -> None:
    check(fitting_mixture(seed).scenario(all_run=True), seed=seed, plan=draw(seed, WITH_PROVISIONER))


@pytest.mark.req("T13.later-decisions")
@pytest.mark.parametrize("seed", seeds(9))
def test_schedulable_pods_are_scheduled(seed: int) -> None:
    check(mixture(seed).scenario(), seed=seed, plan=draw(seed, WITH_PROVISIONER))


@pytest.mark.req("T35.no-lease")
@pytest.mark.parametrize("seed", seeds(9))
def test_duplicate_instances_provision_no_volume_twice(seed: int) -> None:
    check(mixture(seed).scenario(), seed=seed, plan=draw(seed, TWO_OF_EACH))


@pytest.mark.req("T16.pv-deleted", "T16.pvc-deleted", "T17.vanished-node")
@pytest.mark.parametrize("seed", seeds(8))
def test_cluster_converges_after_interventions(seed: int) -> None:
    chosen = mixture(seed)
    check(chosen.scenario(), seed=seed, plan=draw(seed, chosen.with_interventions(WITH_PROVISIONER)))


@pytest.mark.req("T17.cleared", "T17.elsewhere")
@pytest.mark.parametrize("seed", seeds(8))
def test_selected_node_without_provisioning_is_cleared(seed: int) -> None:
    """1. Two of four nodes cannot be provisioned for. 2. Claims with such a selected node, at least that of a pod that
    prefers one of them, are returned to the scheduler. 3. Another node, selected for some, is deleted."""
    storage_class = class_body(
        name="not-everywhere",
        provisioner="local.standins.mooring.dev",
        parameters={"unavailableIn": "node-1, node-2"},
    )
    names = [f"pod-{number}" for number in range(4)]
    claims = [claim_body(name=name, storage_class="not-everywhere") for name in names]
    there = {"matchExpressions": [{"key": well_known.HOSTNAME, "operator": "In", "values": ["node-1"]}]}
    best = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "preference": there}]}
    pods = [pod_body(name=name, claims=[name], affinity={"nodeAffinity": best}) for name in names[:1]]
    pods += [pod_body(name=name, claims=[name]) for name in names[1:]]
    scenario = FaultScenario(
        Layout(nodes=4, local_volumes=0),
        partial(create_objects, [storage_class, *claims, *pods], 3.0),
        expect=partial(served_elsewhere, names),
        can_provision=lambda _, __, node, ___: node.name in ("node-3", "node-4"),
    )
    drawn = draw(seed, WITH_PROVISIONER)
    lost = Deletion("nodes", "node-3", write=6 + seed)
    result = check(scenario, seed=seed, plan=FaultPlan((*drawn.faults, lost), drawn.latency))
    assert any(is_returned_to_scheduler(entry) for entry in result.history.writes()), (
        "no node without provisioning was selected"
    )


def is_returned_to_scheduler(entry: Written) -> bool:
    before, after = entry.change.before, entry.change.after
    if entry.kind is not CLAIM or before is None or after is None:
        return False
    return CLAIM.decode(before.value).selected_node is not None and CLAIM.decode(after.value).selected_node is None


def served_elsewhere(names: Sequence[str], facts: Facts) -> Iterable[Violation]:
    """All pods run but those with a volume on the deleted node."""
    for name in names:
        pod, claim = facts.pods.get(f"default/{name}"), facts.claims[f"default/{name}"]
        volume = facts.volume_of(claim)
        lost = volume is not None and not any(reaches(node, volume) for node in facts.nodes.values())
        if pod is not None and pod.status.phase != "Running" and not lost:
            yield Violation("served elsewhere", f"pod {name} does not run", (Subject(POD, pod.key),))
