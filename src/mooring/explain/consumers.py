"""The pods a claim waits for: whether there are any, and why none of them has got it a node yet."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from mooring.api import keys
from mooring.api.kinds import POD
from mooring.api.views.claim import Claim
from mooring.api.views.pod import Pod
from mooring.explain.events import Events
from mooring.explain.verdicts import ClaimStanding


def users_of(pods: Iterable[Pod]) -> Mapping[str, Sequence[Pod]]:
    """The pods that have not finished, by the keys of the claims they use."""
    users: defaultdict[str, list[Pod]] = defaultdict(list)
    for pod in sorted(pods, key=lambda one: one.key):
        if not pod.finished:
            for key in dict.fromkeys(pod.claim_keys):
                users[key].append(pod)
    return users


def awaiting(claim: Claim, pods: Sequence[Pod], events: Events) -> ClaimStanding:
    """Where a claim stands that is bound when a pod that uses it is placed."""
    name = f"class {claim.storage_class}"
    if not pods:
        verdict = f"{claim.key} waits, as it should: {name} binds it when a pod uses it, and none does."
        checks = ("create a pod that uses it, or use a class with volumeBindingMode Immediate",)
        return ClaimStanding(claim.key, "NoConsumer", verdict, checks=checks)
    if placed := next((pod for pod in pods if pod.spec.node_name), None):
        verdict = (
            f"{claim.key} will not be bound: pod {placed.key} was put on {placed.spec.node_name} past the scheduler, "
            f"and only a scheduler chooses a node for {name}."
        )
        again = f"create pod {placed.key} again without nodeName; use a nodeSelector instead"
        return ClaimStanding(
            claim.key, "ConsumerPlaced", verdict, stuck=True, node=placed.spec.node_name, checks=(again,)
        )
    if all(left_alone(pod, events) for pod in pods):
        who = pods[0].spec.scheduler_name
        verdict = (
            f'{claim.key} waits for pod {pods[0].key}, which is left to scheduler "{who}": nothing is heard of it.'
        )
        start = f'start scheduler "{who}", or create the pod again with another schedulerName'
        return ClaimStanding(claim.key, "OtherScheduler", verdict, stuck=True, checks=(start,))
    if all(pod.spec.scheduling_gates for pod in pods):
        gates = ", ".join(gate.name for gate in pods[0].spec.scheduling_gates)
        verdict = f"{claim.key} waits for pod {pods[0].key}, which is not to be scheduled yet: gates {gates}."
        return ClaimStanding(
            claim.key, "ConsumerGated", verdict, checks=("find out which component removes the gates",)
        )
    names = ", ".join(pod.key for pod in pods)
    verdict = f"{claim.key} waits for {names} to be given a node."
    return ClaimStanding(claim.key, "ConsumerUnscheduled", verdict, checks=(f"mooring explain pod/{pods[0].name}",))


def left_alone(pod: Pod, events: Events) -> bool:
    """Whether a pod waits for a scheduler of which nothing is heard: neither about this pod nor about any other."""
    name = pod.spec.scheduler_name
    if pod.spec.node_name or name == keys.DEFAULT_SCHEDULER or name in events.tellers:
        return False
    looked_at = any(condition.type == "PodScheduled" for condition in pod.status.conditions)
    return not looked_at and not events.about(POD, pod)
