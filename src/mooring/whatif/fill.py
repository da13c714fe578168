"""How many more pods of a workload fit: a set is scaled up, or a pod is copied with its claims, beyond what fits.

The number to try is estimated from free resources and reported capacity, so that few pods stay pending; the simulated
run decides how many of them are scheduled. The pods that stay pending show what runs out, and where. Pure.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from mooring.api import quantity
from mooring.api.documents import Body
from mooring.api.kinds import CLAIM, DEPLOYMENT, NODE, POD, REPLICA_SET, STATEFUL_SET, STORAGE_CAPACITY, Kind
from mooring.api.pod_requirements import PODS, requests_of
from mooring.api.quantity import QuantityError
from mooring.api.views.meta import ApiObject
from mooring.api.views.pods import Pod
from mooring.explain.cluster_objects import SCHEDULING_KINDS, ClusterObjects
from mooring.explain.node_details import offered_and_taken
from mooring.explain.text import counted_noun, listed_names
from mooring.scheduler.framework.interface import RejectionCode
from mooring.volumes.capacity import limit_of
from mooring.whatif.inventory import BadQuestion, Inventory
from mooring.whatif.question import SCALED, Scaling
from mooring.whatif.results import RejectedNodes, SimulationResult, SimulationStruct

#: Pods that are tried at most.
MAX_FILLED_PODS: Final = 1000
#: Names listed in the verdict.
MAX_LISTED: Final = 3
#: Codes of what pods use up, with a name for it; "" for the subject of the rejection.
_USED_UP: Final[Mapping[str, str]] = {
    RejectionCode.RESOURCE.value: "",
    RejectionCode.POD_COUNT.value: "pods",
    RejectionCode.HOST_PORTS.value: "host ports",
    RejectionCode.VOLUME_LIMIT.value: "attachable volumes",
    RejectionCode.NO_VOLUME.value: "free volumes",
    RejectionCode.STORAGE_CAPACITY.value: "storage capacity",
    RejectionCode.SPREADING.value: "nodes that topology spread constraints allow",
    RejectionCode.POD_ANTI_AFFINITY.value: "nodes that pod anti-affinity allows",
    RejectionCode.EXISTING_POD_ANTI_AFFINITY.value: "nodes that pod anti-affinity allows",
}
#: Names of pods that a workload creates, after its own name.
_POD_SUFFIX: Final = {STATEFUL_SET: r"\d+", REPLICA_SET: r"[a-z0-9]{5}", DEPLOYMENT: r"[a-z0-9]+-[a-z0-9]{5}"}
_COPY: Final = "copy"


class FilledLimit(SimulationStruct, frozen=True):
    """What runs out on these nodes."""

    what: str
    nodes: tuple[str, ...]
    reason: str


class FillResult(SimulationStruct, frozen=True, omit_defaults=False):
    """How many more pods fit and what keeps the next one from being scheduled, most nodes first."""

    verdict: str
    ok: bool
    workload: str
    fits: int
    #: Pods that were tried; if all of them fit, more may.
    tried: int
    nodes: dict[str, int]
    limits: tuple[FilledLimit, ...]
    result: SimulationResult


class FillTarget(NamedTuple):
    kind: Kind[ApiObject]
    #: `namespace/name`.
    key: str

    @property
    def text(self) -> str:
        return f"{self.kind.singular}/{self.key}"

    def is_of(self, pod: str) -> bool:
        """Whether the pod with this key is one of those to count."""
        suffix = _POD_SUFFIX.get(self.kind, rf"{_COPY}-\d+")
        return re.fullmatch(rf"{re.escape(self.key)}-{suffix}", pod) is not None


def fill_target(text: str, *, namespace: str) -> FillTarget:
    """From `sts/NAME`, `deploy/NAME`, `rs/NAME` or `pod/NAME`. Raises BadQuestion."""
    word, slash, name = text.partition("/")
    kind = {**SCALED, **dict.fromkeys(("pod", "pods", "po"), POD)}.get(word.lower())
    if kind is None or not slash or not name or "/" in name:
        raise BadQuestion(f"{text!r} does not say what to fill with: write sts/NAME, deploy/NAME, rs/NAME or pod/NAME")
    return FillTarget(kind, f"{namespace}/{name}")


def fill(inventory: Inventory, target: FillTarget, *, most: int = MAX_FILLED_PODS) -> int:
    """Add more pods of the target than can fit, at most this many; returns how many. Raises BadQuestion."""
    body = _body(inventory, target)
    template = body if target.kind is POD else body["spec"]["template"]
    claims = _claims(inventory, target, body)
    number = min(_estimate(inventory, _pod(template), claims) + 1, most)
    if target.kind is POD:
        _copy_pods(inventory, target, body, claims, number)
        return number
    if target.kind is STATEFUL_SET:
        parallel = body | {"spec": body["spec"] | {"podManagementPolicy": "Parallel"}}
        (inventory.create if inventory.is_new(target.kind, target.key) else inventory.keep)(target.kind, parallel)
    existing = 0 if inventory.is_new(target.kind, target.key) else body["spec"].get("replicas", 1)
    Scaling(target.kind, target.key, existing + number).apply(inventory)
    return number


def _body(inventory: Inventory, target: FillTarget) -> Body:
    if inventory.is_new(target.kind, target.key):
        return inventory.new(target.kind)[target.key]
    if not inventory.is_there(target.kind, target.key):
        raise BadQuestion(f"{target.kind.kind} {target.key} to fill with not found")
    return inventory.body(target.kind, target.key)


def _pod(template: Body) -> Pod:
    spec = {field: value for field, value in template.get("spec", {}).items() if field != "nodeName"}
    return POD.decode(msgspec.json.encode({"metadata": {"name": "template"}, "spec": spec}))


def _claims(inventory: Inventory, target: FillTarget, body: Body) -> dict[str, Body]:
    """Specs of the claims that every pod has for itself, by volume."""
    if target.kind is STATEFUL_SET:
        templates = body["spec"].get("volumeClaimTemplates") or ()
        return {each["metadata"]["name"]: each["spec"] for each in templates}
    if target.kind is not POD:
        return {}
    found: dict[str, Body] = {}
    namespace = target.key.partition("/")[0]
    for volume in body["spec"].get("volumes") or ():
        if (name := (volume.get("persistentVolumeClaim") or {}).get("claimName")) is None:
            continue
        key = f"{namespace}/{name}"
        if not inventory.is_there(CLAIM, key) and not inventory.is_new(CLAIM, key):
            raise BadQuestion(f"claim {key} of the pod to fill with not found")
        claim = inventory.new(CLAIM).get(key) or inventory.body(CLAIM, key)
        found[volume["name"]] = {field: value for field, value in claim["spec"].items() if field != "volumeName"}
    return found


def _estimate(inventory: Inventory, pod: Pod, claims: Mapping[str, Body]) -> int:
    """As many as fit by resources of nodes, and by reported capacity of the classes that report any."""
    objects = ClusterObjects()
    for kind in SCHEDULING_KINDS:
        for item in inventory.of(kind):
            objects.put(kind, item)
    snapshot, _ = objects.snapshot()
    wanted = {name: amount for name, amount in requests_of(pod).amounts.items() if amount} | {PODS: 1}
    by_resources = 0
    for node in inventory.of(NODE):
        free = ((offered_and_taken(snapshot, node.name, name), amount) for name, amount in wanted.items())
        by_resources += min(max(offered - taken, 0) // amount for (offered, taken), amount in free)
    return min([by_resources, *_by_capacity(inventory, claims)])


def _by_capacity(inventory: Inventory, claims: Mapping[str, Body]) -> Iterator[int]:
    for spec in claims.values():
        reported = [
            each
            for each in inventory.of(STORAGE_CAPACITY)
            if each.storage_class_name == spec.get("storageClassName") and not each.node_group
        ]
        try:
            size = quantity.to_bytes(spec["resources"]["requests"]["storage"])
            if reported and size:
                values = [each.capacity if each.capacity is not None else limit_of(each) for each in reported]
                yield sum(quantity.to_bytes(value) // size for value in values if value is not None)
        except (KeyError, TypeError, QuantityError):
            continue


def _copy_pods(inventory: Inventory, target: FillTarget, body: Body, claims: Mapping[str, Body], number: int) -> None:
    namespace, _, name = target.key.partition("/")
    kept = {field: value for field, value in body["spec"].items() if field not in ("nodeName", "hostname")}
    labels = body["metadata"].get("labels") or {}
    for index in range(1, number + 1):
        own = f"{name}-{_COPY}-{index}"
        volumes = [_own_claim(volume, own, claims) for volume in kept.get("volumes") or ()]
        metadata = {"name": own, "namespace": namespace, "labels": labels}
        inventory.create(
            POD, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": kept | {"volumes": volumes}}
        )
        for volume, spec in claims.items():
            about = {"name": f"{own}-{volume}", "namespace": namespace}
            inventory.create(
                CLAIM, {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": about, "spec": spec}
            )


def _own_claim(volume: Mapping[str, Any], pod: str, claims: Mapping[str, Body]) -> Mapping[str, Any]:
    if volume["name"] not in claims:
        return volume
    return {"name": volume["name"], "persistentVolumeClaim": {"claimName": f"{pod}-{volume['name']}"}}


def fill_result(target: FillTarget, tried: int, result: SimulationResult) -> FillResult:
    placed = Counter(each.node for each in result.placements if target.is_of(each.pod))
    # Pods without an owner are explained together if they have the same reason.
    reasons = {each.pod: each.reason for each in result.pending}
    waiting = {reason for pod, reason in reasons.items() if target.is_of(pod)}
    explained = next((each for each in result.explanations if reasons.get(each.pod) in waiting), None)
    limits = () if explained is None else tuple(_limits(explained.rejections))
    fits = placed.total()
    return FillResult(
        _verdict(target, fits, tried, limits),
        fits > 0,
        target.text,
        fits,
        tried,
        dict(sorted(placed.items())),
        limits,
        result,
    )


def _limits(rejections: Sequence[RejectedNodes]) -> Iterator[FilledLimit]:
    """What pods use up before what rejects them whatever their number is."""
    for each in sorted(rejections, key=lambda one: one.code not in _USED_UP):
        what = _USED_UP.get(each.code, each.reason) or each.subject
        if each.code == RejectionCode.VOLUME_LIMIT.value and each.subject:
            what = f"{what} of {each.subject}"
        yield FilledLimit(what, each.nodes, each.reason)


def _verdict(target: FillTarget, fits: int, tried: int, limits: Sequence[FilledLimit]) -> str:
    if fits == tried:
        return f"At least {fits} more pods of {target.text} fit."
    if not fits:
        missing = f": {limits[0].what} is used up on {listed_names(limits[0].nodes, MAX_LISTED)}" if limits else ""
        return f"No more pods of {target.text} fit{missing}."
    more = f"{counted_noun(fits, 'more pod')} of {target.text} fit{'s' if fits == 1 else ''}"
    if not limits:
        return f"{more}."
    first = limits[0]
    return f"{more}; then {first.what} runs out on {listed_names(first.nodes, MAX_LISTED)}."
