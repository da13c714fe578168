"""The invariants: each detects the violation it forbids, and accepts similar valid steps."""

import pytest

from mooring.api import well_known
from mooring.api.kinds import CLAIM, VOLUME
from mooring.api.views.core import Node
from mooring.api.views.meta import ApiObject
from mooring.api.views.pods import Pod
from mooring.api.views.storage import Claim, StorageClass, Volume
from support.builders import a_claim, a_class, a_node, a_pod, a_volume, claim_ref
from support.simulation import invariants
from support.simulation.convergence import convergence_errors
from support.simulation.invariants import Facts, Rule, Step, Subject

APART = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": well_known.HOSTNAME, "labelSelector": {"matchLabels": {"app": "db"}}}
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


def bound(name: str = "claim-1", *, volume: str = "volume-1", phase: str = "Bound", deleting: bool = False) -> Claim:
    return a_claim(name=name, volume=volume, bound=True, phase=phase, deleting=deleting)


def reserved(claim: str = "claim-1") -> Volume:
    """A volume whose claimRef has no uid."""
    return a_volume(node="node-1", claim_ref=claim_ref(name=claim))


def given(claim: str = "claim-1", *, node: str = "node-1", phase: str = "Bound", deleting: bool = False) -> Volume:
    reference = claim_ref(name=claim, uid=f"{claim}-uid")
    return a_volume(node=node, claim_ref=reference, phase=phase, deleting=deleting)


def made(*, reclaim: str = "Delete") -> Volume:
    """A volume as a provisioner creates it, on node-1."""
    reference = claim_ref(name="claim-1", uid="claim-1-uid")
    notes = {well_known.PROVISIONED_BY: "local.standins.mooring.dev"}
    return a_volume(node="node-1", claim_ref=reference, annotations=notes, phase="Released", reclaim=reclaim)


def asking(node: str | None) -> Claim:
    return a_claim(storage_class="made", selected_node=node)


def makes(binding_mode: str = "WaitForFirstConsumer") -> StorageClass:
    return a_class(name="made", provisioner="local.standins.mooring.dev", binding_mode=binding_mode)


def placed(node: str = "node-1", *, name: str = "pod-1", phase: str = "Pending") -> Pod:
    return a_pod(name=name, claims=["claim-1"], node=node, phase=phase)


def broken(rule: Rule, step: Step, *others: ApiObject) -> list[str]:
    """The invariants that a step violates."""
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
            id="a bound volume is bound to another claim",
        ),
        pytest.param(
            invariants.volume_outlives_binding, Step(given(), None), (a_claim(),), False, id="volume was only reserved"
        ),
        pytest.param(invariants.volume_outlives_binding, Step(given(), None), (), False, id="claim was deleted"),
        *(
            pytest.param(invariants.volume_outlives_binding, Step(given(), volume), (claim,), is_broken, id=text)
            for text, volume, claim, is_broken in (
                ("reserved for the next claim of its name", reserved(), bound(deleting=True), False),
                ("reserved for a claim of its name, which exists", reserved(), bound(), True),
                ("reserved for a claim of another name", reserved("other"), bound(deleting=True), True),
                ("deleted before its claim", None, bound(deleting=True), True),
            )
        ),
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
            invariants.provisioned_on_selected_node,
            Step(None, made()),
            (asking("node-1"), a_node()),
            False,
            id="provisioned on the selected node",
        ),
        pytest.param(
            invariants.provisioned_on_selected_node,
            Step(None, made()),
            (asking("node-2"), a_node(name="node-2")),
            True,
            id="provisioned on another node",
        ),
        pytest.param(
            invariants.provisioned_on_selected_node,
            Step(None, given()),
            (asking("node-2"), a_node(name="node-2")),
            False,
            id="static volume",
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
def test_rule_detects_violation(rule: Rule, step: Step, others: tuple[ApiObject, ...], is_broken: bool) -> None:
    assert bool(broken(rule, step, *others)) is is_broken


def test_deleted_claim_violates_only_the_node_rule() -> None:
    known = facts(placed(), a_node())
    known.deleted.add(Subject(CLAIM, "default/claim-1"))
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
def test_anti_affinity_rule_detects_violation(labels: dict[str, str], node: str, is_broken: bool) -> None:
    one = a_pod(name="one", node="node-1", labels={"app": "db"}, affinity=APART)
    waiting, other = a_pod(name="other", labels=labels), a_pod(name="other", node=node, labels=labels)
    assert bool(broken(invariants.apart, Step(waiting, other), one)) is is_broken


@pytest.mark.parametrize(
    ("items", "rule"),
    [
        pytest.param((bound(), given(), placed(phase="Running"), a_node()), None, id="converged"),
        pytest.param((a_claim(), given()), "reservations are completed or released", id="reserved, not bound"),
        pytest.param((a_claim(), given(deleting=True)), None, id="reserved and deleted"),
        pytest.param((given(),), "volume phases are correct", id="claimRef to a missing claim"),
        pytest.param((given(phase="Released"),), None, id="released"),
        pytest.param((bound(phase="Pending"), given()), "claim phases are correct", id="bound claim in phase Pending"),
        pytest.param(
            (bound(), given(), placed(), a_node()), "scheduled pods run", id="scheduled pod with volumes is Pending"
        ),
        pytest.param((placed(phase="Running"), a_node()), "claims in use are kept", id="running pod without its claim"),
        pytest.param((placed(),), "pods of deleted nodes are removed", id="pod of a deleted node"),
        pytest.param((placed(""), bound(), given(), a_node()), "schedulable pods are scheduled", id="schedulable pod"),
        pytest.param((placed(""), bound(), given(node="node-2"), a_node()), None, id="unschedulable pod"),
        pytest.param((made(),), "unused provisioned volumes are deleted", id="provisioned for a deleted claim"),
        pytest.param((made(reclaim="Retain"),), None, id="provisioned for a deleted claim, Retain"),
        pytest.param((asking(None), makes(), a_node()), None, id="WaitForFirstConsumer without a pod"),
        pytest.param(
            (asking("node-1"), makes(), a_node()), "provisionable volumes are provisioned", id="selected node"
        ),
        pytest.param(
            (asking(None), makes("Immediate"), a_node()), "provisionable volumes are provisioned", id="Immediate"
        ),
        pytest.param((asking(None), makes("Immediate")), None, id="Immediate without nodes"),
        pytest.param(
            (asking("node-2"), makes(), a_node()),
            "selected nodes that were deleted are cleared",
            id="selected node was deleted",
        ),
    ],
)
def test_convergence_errors_are_found(items: tuple[ApiObject, ...], rule: str | None) -> None:
    first = next(convergence_errors(facts(*items)), None)
    assert (first and first.rule) == rule


def test_pending_claim_with_matching_volume_is_an_error() -> None:
    [violation] = convergence_errors(facts(a_claim(), a_volume(node="node-1")))
    assert violation.rule == "bindable claims are bound"
    assert violation.objects == (Subject(CLAIM, "default/claim-1"), Subject(VOLUME, "volume-1"))
