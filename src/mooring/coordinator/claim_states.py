"""Claim states for `volumes.holds.policy`, read from informers, with settings and first-seen times.

Decides nothing. Intents are not watched: they are read for the few claims with siblings that have held volumes.
"""

from collections.abc import Collection, Iterator

import msgspec

from mooring.api.kinds import CLAIM, CSI_NODE, NODE, POD, STORAGE_CLASS, VOLUME, VOLUME_ATTACHMENT
from mooring.api.node_selectors import topologies_from_view
from mooring.api.views.pods import Pod
from mooring.api.views.storage import Claim, Volume
from mooring.client.cache import ATTACHMENT_BY_VOLUME, BY_UID, POD_BY_CLAIM
from mooring.client.informer import Informers
from mooring.coordinator.nominations import admits, allowed, drivers_on
from mooring.volumes.binding import HOLD_NAMESPACE, HoldState, hold_state
from mooring.volumes.holds import objects
from mooring.volumes.holds.policy import ClaimState, HoldTimeouts
from mooring.volumes.holds.transitions import HoldSnapshot, Intent, IntentPhase, VolumeFacts
from mooring.volumes.in_tree import allowed_topologies, reaches_on


class CoordinatorSettings(msgspec.Struct, frozen=True):
    hold_namespace: str = HOLD_NAMESPACE
    timeouts: HoldTimeouts = HoldTimeouts()
    #: Whether it renews the coordinator's Lease itself, because no leader election does.
    renews_lease: bool = False
    #: Names of schedulers whose pods are nominated to another node after a rollback: those that remember no failures.
    nominate_for: frozenset[str] = frozenset()


#: Volumes by the uid of the claim they are held for, or belong to.
BY_CLAIM_UID = "claim uid"
#: Volumes that are held or rolled back, by which of both: few, whatever the number of volumes.
BY_HOLD_STATE = "hold state"


class ClaimStates:
    """Views on shared informers; adds the indexes it needs."""

    def __init__(self, informers: Informers, *, hold_namespace: str) -> None:
        self._hold_namespace = hold_namespace
        self._claims = informers.of(CLAIM)
        self._claims.add_index(*BY_UID)
        self._volumes = informers.of(VOLUME)
        self._volumes.add_index(BY_CLAIM_UID, self.claim_uids)
        self._volumes.add_index(BY_HOLD_STATE, self._hold_states)
        self._pods = informers.of(POD)
        self._pods.add_index(*POD_BY_CLAIM)
        self._classes = informers.of(STORAGE_CLASS)
        self._nodes = informers.of(NODE)
        self._csi_nodes = informers.of(CSI_NODE)
        self._attachments = informers.of(VOLUME_ATTACHMENT)
        self._attachments.add_index(*ATTACHMENT_BY_VOLUME)

    def claim_uids(self, volume: Volume) -> tuple[str, ...]:
        """Of the claim that it is held or rolled back for, or belongs to."""
        held = objects.held_for(volume, hold_namespace=self._hold_namespace)
        reference = volume.spec.claim_ref
        uid = held or (reference.uid if reference is not None else "")
        return (uid,) if uid else ()

    def claim(self, uid: str) -> Claim | None:
        return next(iter(self._claims.by_index(BY_UID.name, uid)), None)

    def claim_by_key(self, key: str) -> Claim | None:
        return self._claims.get(key)

    def held(self, name: str) -> Volume | None:
        """The volume, if it is held."""
        volume = self._volumes.get(name)
        if volume is None or hold_state(volume, hold_namespace=self._hold_namespace) is not HoldState.HELD:
            return None
        return volume

    def _hold_states(self, volume: Volume) -> tuple[str, ...]:
        state = hold_state(volume, hold_namespace=self._hold_namespace)
        return (state.value,) if state in (HoldState.HELD, HoldState.ROLLING_BACK) else ()

    def count(self, state: HoldState) -> int:
        """How many volumes are held, or rolled back."""
        return len(self._volumes.by_index(BY_HOLD_STATE, state.value))

    def volumes_of(self, uid: str) -> Collection[Volume]:
        return self._volumes.by_index(BY_CLAIM_UID, uid)

    def attached(self, volume: str) -> bool:
        return bool(self._attachments.by_index(ATTACHMENT_BY_VOLUME.name, volume))

    def users(self, claim: Claim) -> list[Pod]:
        """The pods that wait for the claim: not placed, not done, not going."""
        return [pod for pod in self._pods.by_index(POD_BY_CLAIM.name, claim.key) if pod.waits]

    def siblings(self, pod: Pod) -> list[Claim]:
        """The delayed claims of a pod, in the order of its volumes. Claims of other classes are bound without it."""
        found = (self._claims.get(key) for key in dict.fromkeys(pod.claim_keys))
        return [claim for claim in found if claim is not None and self.is_delayed(claim)]

    def missing_claims(self, pod: Pod) -> list[str]:
        """Keys of the pod's claims that are not known here: gone, or news of them are still to come."""
        return [key for key in dict.fromkeys(pod.claim_keys) if self._claims.get(key) is None]

    def is_delayed(self, claim: Claim) -> bool:
        """Also where the class is not known: news of it may be still to come, and a claim that is left out of its group
        would not be waited for."""
        if not claim.storage_class:
            return False
        storage_class = self._classes.get(claim.storage_class)
        return storage_class is None or storage_class.delayed

    def pod(self, key: str) -> Pod | None:
        return self._pods.get(key)

    def is_selected(self, pod: Pod) -> bool:
        """Whether a node is selected for a claim of the pod that has no volume."""
        return any(claim.selected_node and not claim.spec.volume_name for claim in self.siblings(pod))

    def other_nodes(self, pod: Pod, failed: str) -> Iterator[str]:
        """Nodes other than the failed one where the pod and its volumes may be. Reads every node: only after a
        rollback."""
        claims = self.siblings(pod)
        classes = [found for claim in claims if (found := self._classes.get(claim.storage_class)) is not None]
        topologies = [topologies_from_view(allowed_topologies(each)) for each in classes]
        # Not all provisioners belong to drivers that nodes list.
        drivers = {each.provisioner for each in classes} & drivers_on(self._csi_nodes.get(failed))
        bound = [volume for claim in claims if (volume := self._volumes.get(claim.spec.volume_name)) is not None]
        for node in self._nodes.items():
            if node.name == failed or not drivers <= drivers_on(self._csi_nodes.get(node.name)):
                continue
            reachable = all(self._reaches(node.name, volume) for volume in bound)
            if reachable and admits(node, pod) and allowed(node, topologies):
                yield node.name

    def claim_state(self, claim: Claim, intent: Intent | None, volume: Volume | None = None) -> ClaimState:
        """`volume` is the one that is looked at, where the claim has several."""
        foremost = self._preferred_volume(claim)
        volume = volume or (self._volumes.get(claim.spec.volume_name) if claim.spec.volume_name else foremost)
        facts = self.facts(volume) if volume is not None else None
        bound = bool(claim.spec.volume_name) or (facts is not None and facts.state is HoldState.COMMITTED)
        return ClaimState(
            claim.name,
            HoldSnapshot(objects.claim_facts(claim), facts, intent),
            bound=bound,
            superseded=volume is not None and foremost is not None and foremost.name != volume.name,
            reaches=lambda node: volume is not None and self._reaches(node, volume),
            provisioning=self._is_provisioning(claim, intent),
        )

    def _preferred_volume(self, claim: Claim) -> Volume | None:
        """The volume that a claim is to have, where several are held for it or belong to it: what is given is given,
        what was provisioned for it comes next, and of existing ones the last that was chosen."""
        return max(self.volumes_of(claim.uid), key=self._precedence, default=None)

    def _precedence(self, volume: Volume) -> tuple[int, str, str]:
        facts = self.facts(volume)
        rank = {HoldState.COMMITTED: 3, HoldState.HELD: 1 if facts.static else 2}.get(facts.state, 0)
        return rank, volume.metadata.annotations.get(objects.SINCE, ""), volume.name

    def facts(self, volume: Volume) -> VolumeFacts:
        attached = self.attached(volume.name)
        return objects.volume_facts(volume, hold_namespace=self._hold_namespace, attached=attached)

    def _reaches(self, node: str, volume: Volume) -> bool:
        known = self._nodes.get(node)
        labels = known.metadata.labels if known is not None else {}
        return reaches_on(node, labels, volume, self._csi_nodes.get(node))

    def _is_provisioning(self, claim: Claim, intent: Intent | None) -> bool:
        if intent is not None:
            return intent.phase is IntentPhase.CREATING
        # A driver that keeps no records; that it was given a node is all there is to know.
        return bool(claim.selected_node) and not claim.spec.volume_name


class FirstSeen:
    """Moments by subject and key. A restart begins to count again, which only ever waits longer."""

    def __init__(self) -> None:
        self._began: dict[str, dict[str, float]] = {}

    def seconds(self, subject: str, key: str = "", *, begins: bool, ends: bool, now: float) -> float:
        """How long ago it began. What has begun goes on until it ends, whether or not it begins again meanwhile."""
        moments = self._began.setdefault(subject, {})
        if ends:
            moments.pop(key, None)
            return 0.0
        if begins:
            moments.setdefault(key, now)
        return now - moments.get(key, now)

    def forget(self, subject: str) -> None:
        self._began.pop(subject, None)
