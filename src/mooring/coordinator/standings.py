"""How far the claims of a pod have come, read off what the informers know.

Facts for `volumes.holds.verdicts`, which decides; nothing here does. Intents are not watched: they are asked for, for
the few claims that have siblings with held volumes.
"""

from collections.abc import Collection

from mooring.api.kinds import CLAIM, CSI_NODE, NODE, POD, STORAGE_CLASS, VOLUME, VOLUME_ATTACHMENT
from mooring.api.views.claim import Claim
from mooring.api.views.pod import Pod
from mooring.api.views.volume import Volume
from mooring.client.indexes import ATTACHMENT_BY_VOLUME, BY_UID, POD_BY_CLAIM
from mooring.client.informer import Informers
from mooring.volumes.holds import objects
from mooring.volumes.holds.facts import Situation, VolumeFacts
from mooring.volumes.holds.intent import Intent, Phase
from mooring.volumes.holds.verdicts import Standing
from mooring.volumes.in_tree import reaches_on
from mooring.volumes.plan import HoldState, hold_state

#: Volumes by the uid of the claim they are held for, or belong to.
BY_CLAIM_UID = "claim uid"


class Standings:
    """Views on shared informers; adds the indexes it needs."""

    def __init__(self, informers: Informers, *, hold_namespace: str) -> None:
        self._hold_namespace = hold_namespace
        self._claims = informers.of(CLAIM)
        self._claims.add_index(*BY_UID)
        self._volumes = informers.of(VOLUME)
        self._volumes.add_index(BY_CLAIM_UID, self.claim_uids)
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

    def held(self, name: str) -> Volume | None:
        """The volume, if it is held."""
        volume = self._volumes.get(name)
        if volume is None or hold_state(volume, hold_namespace=self._hold_namespace) is not HoldState.HELD:
            return None
        return volume

    def held_count(self) -> int:
        states = (hold_state(volume, hold_namespace=self._hold_namespace) for volume in self._volumes.items())
        return sum(state is HoldState.HELD for state in states)

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
        return [claim for claim in found if claim is not None and self._delayed(claim)]

    def unseen(self, pod: Pod) -> list[str]:
        """Keys of the pod's claims that are not known here: gone, or news of them are still to come."""
        return [key for key in dict.fromkeys(pod.claim_keys) if self._claims.get(key) is None]

    def _delayed(self, claim: Claim) -> bool:
        """Also where the class is not known: news of it may be still to come, and a claim that is left out of its group
        would not be waited for."""
        if not claim.storage_class:
            return False
        storage_class = self._classes.get(claim.storage_class)
        return storage_class is None or storage_class.delayed

    def standing(
        self, claim: Claim, intent: Intent | None, *, adrift_seconds: float, volume: Volume | None = None
    ) -> Standing:
        """`volume` is the one that is looked at, where the claim has several."""
        volume = volume or self._volume_of(claim)
        facts = self.facts(volume) if volume is not None else None
        bound = bool(claim.spec.volume_name) or (facts is not None and facts.state is HoldState.COMMITTED)
        return Standing(
            claim.name,
            Situation(objects.claim_facts(claim), facts, intent),
            bound=bound,
            doubled=volume is not None and self._is_outdone(volume, claim),
            reaches=lambda node: volume is not None and self._reaches(node, volume),
            in_the_making=self._in_the_making(claim, intent),
            adrift_seconds=adrift_seconds,
        )

    def _volume_of(self, claim: Claim) -> Volume | None:
        if claim.spec.volume_name:
            return self._volumes.get(claim.spec.volume_name)
        return self._foremost(claim)

    def _is_outdone(self, volume: Volume, claim: Claim) -> bool:
        foremost = self._foremost(claim)
        return foremost is not None and foremost.name != volume.name

    def _foremost(self, claim: Claim) -> Volume | None:
        """The volume that a claim is to have, where several are held for it or belong to it: what is given is given,
        what was made for it comes next, and of existing ones the last that was chosen."""
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

    def _in_the_making(self, claim: Claim, intent: Intent | None) -> bool:
        if intent is not None:
            return intent.phase is Phase.CREATING
        # SEEN: a driver that keeps no records; that it was given a node is all there is to know.
        return bool(claim.selected_node) and not claim.spec.volume_name
