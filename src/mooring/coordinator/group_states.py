"""Groups for `volumes.holds.group_gates` and `group_policy`, put together from informers or from live reads.

Decides nothing.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import NamedTuple

from mooring.api.kinds import NODE, POD, VOLUME
from mooring.api.views.pod_groups import PodGroup
from mooring.api.views.pods import Pod
from mooring.api.views.storage import Claim, Volume
from mooring.client.cache import POD_BY_GROUP
from mooring.client.informer import Informers
from mooring.coordinator.claim_states import ClaimStates
from mooring.volumes.binding import HoldState, hold_state
from mooring.volumes.holds import group_objects, objects
from mooring.volumes.holds.group_gates import ClaimHold, LiveGroup, LivePod
from mooring.volumes.holds.group_record import UNMARKED, StoredGroup
from mooring.volumes.holds.transitions import HoldSnapshot, Intent, IntentPhase

#: Volumes by the uid of their group.
BY_GROUP_UID = "group uid"


class GroupObjects(NamedTuple):
    """What a group is put together from."""

    pods: Collection[Pod]
    #: By key.
    claim: Callable[[str], Claim | None]
    volumes: Collection[Volume]
    #: By uid of the claim; None where the attempt of every volume is taken for the recorded one.
    intents: Mapping[str, Intent] | None = None


class GroupStates:
    """Views on shared informers; adds the indexes it needs."""

    def __init__(self, informers: Informers, claim_states: ClaimStates, *, hold_namespace: str) -> None:
        self._claim_states = claim_states
        self._hold_namespace = hold_namespace
        self._volumes = informers.of(VOLUME)
        self._volumes.add_index(BY_GROUP_UID, _group_uids)
        self._pods = informers.of(POD)
        self._pods.add_index(*POD_BY_GROUP)
        self._nodes = informers.of(NODE)

    def cached(self, uid: str, key: str) -> GroupObjects:
        """By informers, with held volumes of the members' claims that have no label yet."""
        pods = tuple(self._pods.by_index(POD_BY_GROUP.name, key)) if key else ()
        volumes = {volume.name: volume for volume in self._volumes.by_index(BY_GROUP_UID, uid)}
        for pod in pods:
            for claim in self._claim_states.siblings(pod) if pod.waits else ():
                volumes |= {each.name: each for each in self._claim_states.volumes_of(claim.uid) if self.is_held(each)}
        return GroupObjects(pods, self._claim_states.claim_by_key, tuple(volumes.values()))

    def needs_record(self, group: PodGroup, found: GroupObjects) -> bool:
        """Whether the members of a gang wait for each other: not once the quorum is placed, nor if all exist and cannot
        be held together."""
        if not group.is_gang:
            return False
        pods = [pod for pod in found.pods if not pod.finished]
        if sum(bool(pod.spec.node_name) for pod in pods) >= group.min_count:
            return False
        if len(pods) < group.min_count or any(self.late_claims(pod, found) is None for pod in pods if pod.waits):
            return True
        return self.can_be_held(found)

    def can_be_held(self, found: GroupObjects) -> bool:
        """Whether late-bound claims of members that wait can be held together: a single one cannot succeed in part,
        and a record has so many members only."""
        late = [self.late_claims(pod, found) or () for pod in found.pods if pod.waits]
        claims = {claim.uid for own in late for claim in own}
        return len(claims) > 1 and not group_objects.may_be_too_large(members=len(late), claims=len(claims))

    def labelled(self, uid: str) -> Collection[Volume]:
        return self._volumes.by_index(BY_GROUP_UID, uid)

    def is_held(self, volume: Volume) -> bool:
        return hold_state(volume, hold_namespace=self._hold_namespace) is HoldState.HELD

    def held_for(self, volume: Volume) -> str:
        return objects.held_for(volume, hold_namespace=self._hold_namespace)

    def key_of(self, uid: str) -> str:
        """Key of the group of a held volume, by the pods that use its claim."""
        for volume in self._volumes.by_index(BY_GROUP_UID, uid):
            claim = self._claim_states.claim(self.held_for(volume))
            for pod in self._claim_states.users(claim) if claim is not None else ():
                if pod.group_key:
                    return pod.group_key
        return ""

    def group_uid_of(self, pod: Pod) -> str:
        """Uid of a pod's group, by the volumes that are held for its claims."""
        held = (
            volume for claim in self._claim_states.siblings(pod) for volume in self._claim_states.volumes_of(claim.uid)
        )
        return next(filter(None, map(group_objects.group_uid_of, held)), "")

    def live(self, stored: StoredGroup, group: PodGroup | None, found: GroupObjects) -> LiveGroup:
        waiting: dict[str, LivePod] = {}
        claims: dict[str, Claim] = {}
        placed: list[Pod] = []
        for pod in found.pods:
            if pod.spec.node_name and not pod.finished:
                placed.append(pod)
            if not pod.waits or pod.spec.scheduling_gates:
                continue
            late = self.late_claims(pod, found)
            claims |= {claim.uid: claim for claim in late or ()}
            waiting[pod.uid] = LivePod(pod.uid, None if late is None else frozenset(claim.uid for claim in late))
        key = group.topology_key if group is not None else ""
        return LiveGroup(
            stored,
            group.min_count if group is not None else None,
            waiting,
            len(placed),
            frozenset(self._domain(pod.spec.node_name, key) for pod in placed) if key else frozenset(),
            self.holds(claims.values(), found),
            (lambda node: self._domain(node, key)) if key else (lambda _: ""),
        )

    def late_claims(self, pod: Pod, found: GroupObjects) -> list[Claim] | None:
        """Those of its claims that are bound when it is scheduled; None where a claim does not exist."""
        own = [found.claim(key) for key in dict.fromkeys(pod.claim_keys)]
        if any(claim is None for claim in own):
            return None
        return [claim for claim in own if claim is not None and self._claim_states.is_delayed(claim)]

    def holds(self, claims: Iterable[Claim], found: GroupObjects) -> dict[str, ClaimHold]:
        """By uid of the claim."""
        by_claim: dict[str, Volume] = {}
        for volume in found.volumes:
            if self.is_held(volume):
                by_claim[self.held_for(volume)] = volume
        return {claim.uid: self.hold_of(claim, by_claim.get(claim.uid), found) for claim in claims}

    def hold_of(self, claim: Claim, volume: Volume | None, found: GroupObjects) -> ClaimHold:
        """`volume` is held for the claim; None: what belongs to the claim, if anything does, is never taken from it,
        so that informers are good enough."""
        intent = self._intent(claim.uid, volume, found)
        state = self._claim_states.claim_state(claim, intent, volume)
        mark = group_objects.mark_of(volume) if volume is not None else UNMARKED
        return ClaimHold(state.snapshot, mark, state.reaches)

    def without_claim(self, volume: Volume) -> ClaimHold:
        """Of a held volume whose claim does not exist."""
        return ClaimHold(HoldSnapshot(None, self._claim_states.facts(volume), None), group_objects.mark_of(volume))

    def _intent(self, uid: str, volume: Volume | None, found: GroupObjects) -> Intent | None:
        if found.intents is not None or volume is None:
            return found.intents.get(uid) if found.intents is not None else None
        facts = self._claim_states.facts(volume)
        return Intent(facts.attempt, facts.node, IntentPhase.CREATED)

    def _domain(self, node: str, key: str) -> str:
        known = self._nodes.get(node)
        return known.metadata.labels.get(key, "") if known is not None else ""


def _group_uids(volume: Volume) -> tuple[str, ...]:
    uid = group_objects.group_uid_of(volume)
    return (uid,) if uid else ()
