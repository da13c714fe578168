"""The preset-node controller: has the delayed claims of pods with a preset `spec.nodeName` bound for that node.

Such a pod bypasses the scheduler, so nothing selects the node that its claims wait for. The decision is the scheduler's
own, on a topology of this one node: an existing volume where one matches, else the selected node, for a provisioner.
Reported capacity is not looked at: no other node could be chosen, and the driver's own error is the better report.
Nothing is held: a hold serves to move a pod with all its volumes, and this pod stays where it is.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

import structlog

from mooring.api import well_known
from mooring.api.kinds import CLAIM, CSI_NODE, NODE, POD, STORAGE_CLASS, VOLUME
from mooring.api.views.core import Node
from mooring.api.views.pods import Pod
from mooring.api.views.storage import Claim, CsiNode, StorageClass, Volume
from mooring.backoff import KeyedBackoff
from mooring.client.cache import POD_BY_CLAIM, POD_BY_NODE, Index
from mooring.client.live_reads import get_or_none
from mooring.client.recorder import WARNING
from mooring.control.component import Context, Reconciler
from mooring.control.feature_gates import PRESET_NODE_BINDING, VOLUME_SCHEDULING
from mooring.pvcontroller import actions
from mooring.volumes.binding import BindingPlan, PodClaims
from mooring.volumes.in_tree import in_zone
from mooring.volumes.matching import is_reserved_for
from mooring.volumes.state import VolumeState
from mooring.volumes.topology import TopologyIndex

log = structlog.get_logger(__name__)

#: A provisioner that fails clears the selected node; it is selected again after this, doubling up to the maximum.
INITIAL_RETRY_SECONDS: Final = 5.0
MAX_RETRY_SECONDS: Final = 300.0


class PresetNode(NamedTuple):
    """The node of a pod, with the objects that decide about its claims there."""

    node: Node
    csi_node: CsiNode | None
    claims: Mapping[str, Claim]
    classes: Mapping[str, StorageClass]
    #: Free volumes of these classes, and those reserved for one of the claims.
    volumes: tuple[Volume, ...]


class Unbindable(NamedTuple):
    """Why no volume can be bound for a claim on the pod's node."""

    reason: str


def is_preset(pod: Pod) -> bool:
    """Whether a pod has a node, and may still need volumes there."""
    return bool(pod.spec.node_name and pod.spec.volumes) and not pod.finished and not pod.deleting


def waits_for_node(claim: Claim, storage_class: StorageClass | None) -> bool:
    """Whether a claim is bound once a node is selected, and none is."""
    delayed = storage_class is not None and storage_class.delayed
    unbound = not claim.fully_bound and not claim.spec.volume_name and not claim.deleting
    return delayed and unbound and claim.selected_node is None


def plan_on_preset_node(pod: Pod, found: PresetNode) -> BindingPlan | Unbindable | None:
    """What to write so that the claims are bound for the pod's node; None where another component has to act first."""
    topology = TopologyIndex.of((found.node,))
    state = VolumeState(topology)
    state.provisioners.ignores_capacity = lambda: True
    for storage_class in found.classes.values():
        state.observe_class(None, storage_class)
    if found.csi_node is not None:
        state.observe_csi_node(None, found.csi_node)
    for volume in found.volumes:
        if in_zone(volume, found.node.metadata.labels):
            state.observe_volume(None, volume)
    for claim in found.claims.values():
        state.observe_claim(None, claim)
    claims = state.claims_of(pod)
    if isinstance(claims, str) or not claims.unbound:
        return None
    # Bound claims, and those with a selected node, have their components; here only the others matter.
    undecided = PodClaims(unbound=claims.unbound)
    for _, reason in state.rejections(undecided):
        return Unbindable(reason.value.removeprefix("node(s) "))
    return state.plan(undecided, found.node.name)


def _candidate_keys(volume: Volume) -> tuple[str, ...]:
    reference = volume.spec.claim_ref
    if reference is None:
        return (_of_class(volume.storage_class),)
    return (_reserved_for(f"{reference.namespace}/{reference.name}"),)


def _of_class(name: str) -> str:
    return f"class {name}"


def _reserved_for(claim: str) -> str:
    return f"claim {claim}"


#: Free volumes by class, others by the claim that they are reserved for.
CANDIDATES: Final[Index[Volume]] = Index("preset node candidate", _candidate_keys)
_UNBOUND: Final[Index[Claim]] = Index(
    "class of an unbound claim", lambda claim: () if claim.fully_bound else (claim.storage_class,)
)


class PresetNodeController(Reconciler[str]):
    """Queued are pods by key."""

    name = "preset-node-controller"
    WORKERS = 4

    def __init__(self, context: Context) -> None:
        super().__init__(context, context.work_queue("preset_node", POD))
        self._enabled = context.gates.enabled(PRESET_NODE_BINDING) and context.gates.enabled(VOLUME_SCHEDULING)
        informers = context.informers
        self._pods = informers.of(POD)
        self._pods.add_index(*POD_BY_CLAIM)
        self._pods.add_index(*POD_BY_NODE)
        self._nodes = informers.of(NODE)
        self._csi_nodes = informers.of(CSI_NODE)
        self._claims = informers.of(CLAIM)
        self._claims.add_index(*_UNBOUND)
        self._classes = informers.of(STORAGE_CLASS)
        self._volumes = informers.of(VOLUME)
        self._volumes.add_index(*CANDIDATES)
        #: Pods for which no volume was found, with the classes of their claims.
        self._unbindable: dict[str, frozenset[str]] = {}
        #: By uid of a claim, when its node may be selected again.
        self._selectable_at: dict[str, float] = {}
        self._backoff: KeyedBackoff[str] = KeyedBackoff(INITIAL_RETRY_SECONDS, MAX_RETRY_SECONDS)

    async def _subscribe(self) -> None:
        if not self._enabled:
            return
        await self._csi_nodes.synced.wait()
        await self._classes.subscribe(self._on_class)
        await self._nodes.subscribe(self._on_node)
        await self._volumes.subscribe(self._on_volume)
        await self._claims.subscribe(self._on_claim)
        await self._pods.subscribe(self._on_pod)

    def _on_pod(self, before: Pod | None, after: Pod | None) -> None:
        if after is None and before is not None:
            self._unbindable.pop(before.key, None)
        elif after is not None and is_preset(after) and any(self._waiting_claims(after)):
            self._queue.add(after.key)

    def _on_claim(self, before: Claim | None, after: Claim | None) -> None:
        claim = before if after is None else after
        assert claim is not None
        if after is None or after.fully_bound:
            self._selectable_at.pop(claim.uid, None)
            self._backoff.forget(claim.uid)
            return
        for pod in self._pods.by_index(POD_BY_CLAIM.name, claim.key):
            self._on_pod(None, pod)

    def _on_class(self, _: StorageClass | None, after: StorageClass | None) -> None:
        if after is not None:
            self._retry_unbindable(after.name)
            # The class may be observed after the claims that wait for it.
            for claim in self._claims.by_index(_UNBOUND.name, after.name):
                self._on_claim(None, claim)

    def _on_volume(self, _: Volume | None, after: Volume | None) -> None:
        if after is not None and after.spec.claim_ref is None:
            self._retry_unbindable(after.storage_class)

    def _on_node(self, before: Node | None, after: Node | None) -> None:
        if after is not None and (before is None or before.metadata.labels != after.metadata.labels):
            for pod in self._pods.by_index(POD_BY_NODE.name, after.name):
                self._on_pod(None, pod)

    def _retry_unbindable(self, storage_class: str) -> None:
        for key, classes in self._unbindable.items():
            if storage_class in classes:
                self._queue.add(key)

    def _waiting_claims(self, pod: Pod) -> Iterator[Claim]:
        for key in dict.fromkeys(pod.claim_keys):
            claim = self._claims.get(key)
            if claim is not None and waits_for_node(claim, self._classes.get(claim.storage_class)):
                yield claim

    async def _sync(self, key: str) -> None:
        pod = self._pods.get(key)
        if pod is None or not is_preset(pod):
            return
        node, waiting = self._nodes.get(pod.spec.node_name), list(self._waiting_claims(pod))
        if node is None or not waiting:
            return
        delay = max(self._selectable_at.get(claim.uid, 0.0) for claim in waiting) - self._clock.monotonic()
        if delay > 0:
            self._queue.add_after(key, delay)
            return
        decided = plan_on_preset_node(pod, self._facts(pod, node, waiting))
        self._unbindable.pop(key, None)
        if isinstance(decided, Unbindable):
            self._unbindable[key] = frozenset(claim.storage_class for claim in waiting)
            names = ", ".join(claim.name for claim in waiting)
            text = f"claims {names} cannot be bound for the pod's preset node {node.name}: it {decided.reason}"
            self._recorder.record(pod, POD, WARNING, well_known.PRESET_NODE_FAILED, text)
        elif decided is not None:
            await self._write(pod, decided)

    def _facts(self, pod: Pod, node: Node, waiting: Iterable[Claim]) -> PresetNode:
        found = ((key, self._claims.get(key)) for key in dict.fromkeys(pod.claim_keys))
        claims = {key: claim for key, claim in found if claim is not None}
        named = ((name, self._classes.get(name)) for name in {claim.storage_class for claim in claims.values()})
        keys = dict.fromkeys((*(_of_class(one.storage_class) for one in waiting), *map(_reserved_for, claims)))
        volumes = {volume.name: volume for key in keys for volume in self._volumes.by_index(CANDIDATES.name, key)}
        classes = {name: one for name, one in named if one is not None}
        return PresetNode(node, self._csi_nodes.get(node.name), claims, classes, tuple(volumes.values()))

    async def _write(self, pod: Pod, plan: BindingPlan) -> None:
        for binding in plan.static:
            claim = binding.claim
            # The volume's version says nothing about the claim, and informers may lag behind each other.
            actual = await get_or_none(self._client, CLAIM, claim.name, namespace=claim.namespace, uid=claim.uid)
            if actual is None or not waits_for_node(actual, self._classes.get(actual.storage_class)):
                return
            by_controller = not is_reserved_for(binding.volume, claim)
            await self._send(actions.ReserveVolume(binding.volume, claim, by_controller))
            log.info("volume reserved for preset node", pod=pod.key, claim=claim.key, volume=binding.volume.name)
        for provisioning in plan.provision:
            claim = provisioning.claim
            await self._send(actions.SelectNode(claim, plan.node))
            self._selectable_at[claim.uid] = self._clock.monotonic() + self._backoff.next_delay(claim.uid)
            log.info("preset node selected", pod=pod.key, claim=claim.key, node=plan.node)

    async def _send(self, write: actions.Write) -> None:
        request = actions.to_request(write)
        target = request.target
        await self._client.patch(request.kind, target.name, request.patch, namespace=target.namespace)
