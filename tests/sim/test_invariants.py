"""The rules themselves: each one is broken by what it forbids, and by nothing close to it."""

import pytest

from builders import a_claim, a_class, a_node, a_pod, a_volume, claim_ref
from mooring.api import keys
from mooring.api.kinds import CLAIM, VOLUME
from mooring.api.views.claim import Claim
from mooring.api.views.meta import ApiObject
from mooring.api.views.node import Node
from mooring.api.views.pod import Pod
from mooring.api.views.storage import StorageClass
from mooring.api.views.volume import Volume
from mooring.sim import invariants
from mooring.sim.facts import Facts, Step, Subject
from mooring.sim.invariants import Rule
from mooring.sim.settled import unsettled

APART = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": keys.HOSTNAME, "labelSelector": {"matchLabels": {"app": "db"}}}
        ]
    }
}


def facts(*items: ApiObject) -> Facts:
    known = Facts()
    for item in items:
        match item:
            case Pod():
                known.pods[item.key] = item
            case Claim():
                known.claims[item.key] = item
            case Volume():
                known.volumes[item.key] = item
            case StorageClass():
                known.classes[item.key] = item
            case Node():
                known.nodes[item.key] = known.machines[item.key] = item
    return known


def bound(name: str = "claim-1", *, volume: str = "volume-1", phase: str = "Bound") -> Claim:
    return a_claim(name=name, volume=volume, bound=True, phase=phase)


def given(claim: str = "claim-1", *, node: str = "node-1", phase: str = "Bound", deleting: bool = False) -> Volume:
    reference = claim_ref(name=claim, uid=f"{claim}-uid")
    return a_volume(node=node, claim_ref=reference, phase=phase, deleting=deleting)


def made(*, reclaim: str = "Delete") -> Volume:
    """As a provisioner makes it, on node-1."""
    reference = claim_ref(name="claim-1", uid="claim-1-uid")
    notes = {keys.PROVISIONED_BY: "local.standins.mooring.dev"}
    return a_volume(node="node-1", claim_ref=reference, annotations=notes, phase="Released", reclaim=reclaim)


def asking(node: str | None) -> Claim:
    return a_claim(storage_class="made", selected_node=node)


def makes(binding_mode: str = "WaitForFirstConsumer") -> StorageClass:
    return a_class(name="made", provisioner="local.standins.mooring.dev", binding_mode=binding_mode)


def placed(node: str = "node-1", *, name: str = "pod-1", phase: str = "Pending") -> Pod:
    return a_pod(name=name, claims=["claim-1"], node=node, phase=phase)


def broken(rule: Rule, step: Step, *others: ApiObject) -> list[str]:
    """The rules a step breaks in a world where it has just happened."""
    items = (*others, step.after) if step.after is not None else others
    return [violation.rule for violation in rule(facts(*items), step)]


@pytest.mark.parametrize(
    ("rule", "step", "others", "is_broken"),
    [
        pytest.param(
            invariants.one_claim_per_volume, Step(None, bound("other")), (bound(),), True, id="a volume with two claims"
        ),
        pytest.param(
            invariants.one_claim_per_volume,
            Step(None, bound("other", volume="other")),
            (bound(),),
            False,
            id="two volumes with a claim each",
        ),
        pytest.param(
            invariants.bound_for_good, Step(bound(), bound(volume="other")), (), True, id="a claim changes its volume"
        ),
        pytest.param(invariants.bound_for_good, Step(bound(), a_claim()), (), True, id="a claim loses its volume"),
        pytest.param(
            invariants.bound_for_good, Step(a_claim(volume="volume-1"), a_claim()), (), False, id="it was never bound"
        ),
        pytest.param(
            invariants.completed_on_its_own_volume,
            Step(a_claim(), bound()),
            (given("other"),),
            True,
            id="completed on another's volume",
        ),
        pytest.param(
            invariants.completed_on_its_own_volume, Step(a_claim(), bound()), (), True, id="completed on no volume"
        ),
        pytest.param(
            invariants.completed_on_its_own_volume,
            Step(a_claim(), bound()),
            (given(),),
            False,
            id="on its own",
        ),
        pytest.param(
            invariants.volume_outlives_binding, Step(given(), None), (bound(),), True, id="a bound volume is deleted"
        ),
        pytest.param(
            invariants.volume_outlives_binding,
            Step(given(), given("other")),
            (bound(),),
            True,
            id="a bound volume is given away",
        ),
        pytest.param(
            invariants.volume_outlives_binding, Step(given(), None), (a_claim(),), False, id="it was only reserved"
        ),
        pytest.param(invariants.volume_outlives_binding, Step(given(), None), (), False, id="its claim is gone"),
        pytest.param(
            invariants.released_after_its_claim,
            Step(given(), given(phase="Released")),
            (a_claim(),),
            True,
            id="released while the claim is there",
        ),
        pytest.param(
            invariants.released_after_its_claim,
            Step(given(), given(phase="Released")),
            (),
            False,
            id="released after the claim",
        ),
        pytest.param(
            invariants.made_where_asked, Step(None, made()), (asking("node-1"), a_node()), False, id="made where asked"
        ),
        pytest.param(
            invariants.made_where_asked,
            Step(None, made()),
            (asking("node-2"), a_node(name="node-2")),
            True,
            id="made elsewhere",
        ),
        pytest.param(
            invariants.made_where_asked,
            Step(None, given()),
            (asking("node-2"), a_node(name="node-2")),
            False,
            id="by hand",
        ),
        pytest.param(invariants.one_node_per_pod, Step(placed("node-1"), placed("node-2")), (), True, id="a pod moves"),
        pytest.param(invariants.one_node_per_pod, Step(placed(""), placed()), (), False, id="a pod gets its node"),
        pytest.param(
            invariants.assigned_within_reach,
            Step(placed(""), placed()),
            (bound(), given(), a_node()),
            False,
            id="assigned beside its volume",
        ),
        pytest.param(
            invariants.assigned_within_reach,
            Step(placed(""), placed()),
            (bound(), given(node="node-2"), a_node()),
            True,
            id="assigned to another node than its volume",
        ),
        pytest.param(
            invariants.assigned_within_reach,
            Step(placed(""), placed()),
            (a_claim(), given(), a_node()),
            True,
            id="assigned before its claim is bound",
        ),
        pytest.param(
            invariants.running_within_reach,
            Step(placed(), placed(phase="Running")),
            (bound(), given(), a_node()),
            False,
            id="runs beside its volume",
        ),
        pytest.param(
            invariants.running_within_reach,
            Step(placed(), placed(phase="Running")),
            (bound(), a_node()),
            True,
            id="runs without its volume",
        ),
    ],
)
def test_a_rule_is_broken_by_what_it_forbids(
    rule: Rule, step: Step, others: tuple[ApiObject, ...], is_broken: bool
) -> None:
    assert bool(broken(rule, step, *others)) is is_broken


def test_what_a_user_deleted_is_not_held_against_the_scheduler_but_against_the_node() -> None:
    known = facts(placed(), a_node())
    known.doomed.add(Subject(CLAIM, "default/claim-1"))
    step = Step(placed(""), placed())
    assert not [*invariants.assigned_within_reach(known, step)]
    assert [*invariants.running_within_reach(known, Step(placed(), placed(phase="Running")))]


@pytest.mark.parametrize(
    ("labels", "node", "is_broken"),
    [
        pytest.param({"app": "db"}, "node-1", True, id="together"),
        pytest.param({"app": "db"}, "node-2", False, id="apart"),
        pytest.param({"app": "web"}, "node-1", False, id="not meant"),
    ],
)
def test_pods_that_must_be_apart_are(labels: dict[str, str], node: str, is_broken: bool) -> None:
    one = a_pod(name="one", node="node-1", labels={"app": "db"}, affinity=APART)
    waiting, other = a_pod(name="other", labels=labels), a_pod(name="other", node=node, labels=labels)
    assert bool(broken(invariants.apart, Step(waiting, other), one)) is is_broken


@pytest.mark.parametrize(
    ("items", "rule"),
    [
        pytest.param((bound(), given(), placed(phase="Running"), a_node()), None, id="all is well"),
        pytest.param((a_claim(), given()), "reservations are completed or lifted", id="reserved and not bound"),
        pytest.param((a_claim(), given(deleting=True)), None, id="reserved on its way out"),
        pytest.param((given(),), "volumes say what they are", id="bound to nobody"),
        pytest.param((given(phase="Released"),), None, id="released"),
        pytest.param((bound(phase="Pending"), given()), "claims say what they are", id="a claim that says too little"),
        pytest.param(
            (bound(), given(), placed(), a_node()), "what is placed runs", id="a pod that has everything and waits"
        ),
        pytest.param((placed(phase="Running"), a_node()), "claims in use stay", id="a pod without its claim"),
        pytest.param((placed(),), "pods of lost nodes go", id="a pod without its node"),
        pytest.param(
            (placed(""), bound(), given(), a_node()), "what can be placed is placed", id="a pod that could be placed"
        ),
        pytest.param((placed(""), bound(), given(node="node-2"), a_node()), None, id="a pod that cannot be placed"),
        pytest.param((made(),), "what nobody needs any more is deleted", id="made for a claim that is gone"),
        pytest.param((made(reclaim="Retain"),), None, id="made for a claim that is gone, and kept"),
        pytest.param((asking(None), makes(), a_node()), None, id="a claim that waits for its pod"),
        pytest.param((asking("node-1"), makes(), a_node()), "what can be made is made", id="asked for on a node"),
        pytest.param((asking(None), makes("Immediate"), a_node()), "what can be made is made", id="asked for at once"),
        pytest.param((asking(None), makes("Immediate")), None, id="asked for at once, and there is no place"),
        pytest.param(
            (asking("node-2"), makes(), a_node()), "choices of lost nodes are taken back", id="asked for on a lost node"
        ),
    ],
)
def test_what_is_left_undone_is_found(items: tuple[ApiObject, ...], rule: str | None) -> None:
    first = next(unsettled(facts(*items)), None)
    assert (first and first.rule) == rule


def test_an_immediate_claim_that_could_have_a_volume_does() -> None:
    [violation] = unsettled(facts(a_claim(), a_volume(node="node-1")))
    assert violation.rule == "what can be bound is bound"
    assert violation.objects == (Subject(CLAIM, "default/claim-1"), Subject(VOLUME, "volume-1"))
