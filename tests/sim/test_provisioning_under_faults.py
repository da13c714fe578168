"""Pods with one to four claims, on existing volumes and on volumes to be made, under faults drawn from seeds."""

from collections.abc import Iterable, Sequence
from functools import partial

import pytest

from builders import claim_body, class_body, pod_body
from mooring.api import keys
from mooring.api.kinds import CLAIM, POD
from mooring.cluster.bootstrap import Layout
from mooring.sim.facts import Facts, Subject, reaches
from mooring.sim.faults import Deletion, FaultPlan
from mooring.sim.hazards import draw
from mooring.sim.history import Written
from mooring.sim.invariants import Violation
from mooring.sim.trial import Trial, check
from sim.mixtures import ROUGHER, TWO_OF_EACH, lucky_mixture, mixture
from sim.trials import arrive, seeds


@pytest.mark.req("T15.many", "T43.several-claims")
@pytest.mark.parametrize("seed", seeds(8))
def test_pods_whose_volumes_can_be_had_everywhere_all_run(seed: int) -> None:
    check(lucky_mixture(seed).trial(all_run=True), seed=seed, plan=draw(seed, ROUGHER))


@pytest.mark.req("T13.later-decisions")
@pytest.mark.parametrize("seed", seeds(9))
def test_pods_are_placed_as_far_as_they_can_be(seed: int) -> None:
    check(mixture(seed).trial(), seed=seed, plan=draw(seed, ROUGHER))


@pytest.mark.req("T35.no-lease")
@pytest.mark.parametrize("seed", seeds(9))
def test_two_of_each_share_volumes_and_make_none_twice(seed: int) -> None:
    check(mixture(seed).trial(), seed=seed, plan=draw(seed, TWO_OF_EACH))


@pytest.mark.req("T16.pv-deleted", "T16.pvc-deleted", "T17.vanished-node")
@pytest.mark.parametrize("seed", seeds(8))
def test_others_may_take_and_delete_what_they_like(seed: int) -> None:
    chosen = mixture(seed)
    check(chosen.trial(), seed=seed, plan=draw(seed, chosen.meddled_with(ROUGHER)))


@pytest.mark.req("T17")
@pytest.mark.parametrize("seed", seeds(8))
def test_a_node_for_which_no_volume_can_be_made_is_given_back(seed: int) -> None:
    """1. Two of four nodes get no volumes, which only their provisioner knows. 2. Whoever is sent there, as the one is
    who would like one of them best, must be let go, and tried elsewhere. 3. One more node, which was chosen by some,
    vanishes."""
    storage_class = class_body(
        name="not-everywhere",
        provisioner="local.standins.mooring.dev",
        parameters={"unavailableIn": "node-1, node-2"},
    )
    names = [f"pod-{number}" for number in range(4)]
    claims = [claim_body(name=name, storage_class="not-everywhere") for name in names]
    there = {"matchExpressions": [{"key": keys.HOSTNAME, "operator": "In", "values": ["node-1"]}]}
    best = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "preference": there}]}
    pods = [pod_body(name=name, claims=[name], affinity={"nodeAffinity": best}) for name in names[:1]]
    pods += [pod_body(name=name, claims=[name]) for name in names[1:]]
    trial = Trial(
        Layout(nodes=4, local_volumes=0),
        partial(arrive, [storage_class, *claims, *pods], 3.0),
        expect=partial(served_elsewhere, names),
        make=lambda _, __, node, ___: node.name in ("node-3", "node-4"),
    )
    drawn = draw(seed, ROUGHER)
    lost = Deletion("nodes", "node-3", write=6 + seed)
    outcome = check(trial, seed=seed, plan=FaultPlan((*drawn.faults, lost), drawn.latency))
    assert any(let_go(entry) for entry in outcome.history.writes()), "nobody was sent where nothing can be made"


def let_go(entry: Written) -> bool:
    before, after = entry.change.before, entry.change.after
    if entry.kind is not CLAIM or before is None or after is None:
        return False
    return CLAIM.decode(before.value).selected_node is not None and CLAIM.decode(after.value).selected_node is None


def served_elsewhere(names: Sequence[str], facts: Facts) -> Iterable[Violation]:
    """Whose volume is on the node that vanished is out of luck; all others run."""
    for name in names:
        pod, claim = facts.pods.get(f"default/{name}"), facts.claims[f"default/{name}"]
        volume = facts.volume_of(claim)
        lost = volume is not None and not any(reaches(node, volume) for node in facts.nodes.values())
        if pod is not None and pod.status.phase != "Running" and not lost:
            yield Violation("served elsewhere", f"pod {name} does not run", (Subject(POD, pod.key),))
