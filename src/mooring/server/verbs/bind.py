"""Bind: give a pod its node, once. The scheduler's one write to a pod's spec."""

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

import msgspec

from mooring.api.errors import BadRequest, Unexplained, conflict, success
from mooring.api.field_errors import required, unsupported
from mooring.api.kinds import POD
from mooring.server.admission.pod_topology import topology_labels
from mooring.server.body import Body, is_deleting, meta, part, rows
from mooring.server.contract import Target, WriteOptions, Written
from mooring.server.decoding import Undecodable, decode
from mooring.server.environment import Environment
from mooring.server.objects import retrying
from mooring.server.validation.table import require_valid_update
from mooring.server.verbs.create import CREATED

_SCHEDULED: Final = "PodScheduled"


async def bind_pod(environment: Environment, target: Target, body: Mapping[str, Any], options: WriteOptions) -> Written:
    """`target` is the pod."""
    binding, warnings = await environment.run(partial(_read, target, body, options), options.body_bytes)
    node = binding["target"]["name"]
    labels = part(meta(binding), "labels") | await topology_labels(environment.objects, node)

    async def attempt() -> None:
        stored = await environment.objects.require(target)
        old = stored.decode()
        _check(target.name, binding, old)
        new = _bound(old, node, labels, part(meta(binding), "annotations"), environment.now())
        require_valid_update(POD, new, old, "binding")
        if not options.dry_run:
            await environment.objects.replace(stored, new)

    await retrying(target, attempt)
    return Written(msgspec.json.encode(success(code=CREATED)), CREATED, warnings)


def _read(target: Target, body: Mapping[str, Any], options: WriteOptions) -> tuple[Body, tuple[str, ...]]:
    try:
        binding, warnings = decode("v1", "Binding", body, options.field_validation)
    except Undecodable as problem:
        raise BadRequest(f'Binding in version "v1" cannot be handled as a Binding: {problem}') from problem
    if meta(binding).get("name") != target.name:
        raise BadRequest("name in URL does not match name in Binding object")
    to = part(binding, "target")
    causes = []
    if to.get("kind", "Node") != "Node":
        causes.append(unsupported("target.kind", to["kind"], ("Node", "<empty>")))
    if not to.get("name"):
        causes.append(required("target.name"))
    if causes:
        # Upstream's answer is 500: the one place where it does not call a bad object Invalid.
        raise Unexplained(", ".join(f"{cause.field}: {cause.message}" for cause in causes))
    return binding, warnings


def _check(name: str, binding: Body, pod: Body) -> None:
    """Conflict unless this is still the pod that was meant, and free to be placed."""
    uid, version = meta(binding).get("uid"), meta(binding).get("resourceVersion")
    if uid and uid != (actual := meta(pod)["uid"]):
        why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {actual}"
        raise conflict("pods", name, why)
    if version and version != meta(pod)["resourceVersion"]:
        raise conflict("pods", name)
    spec = part(pod, "spec")
    if is_deleting(pod):
        raise conflict("pods/binding", name, f"pod {name} is being deleted, cannot be assigned to a host")
    if spec.get("nodeName"):
        raise conflict("pods/binding", name, f'pod {name} is already assigned to node "{spec["nodeName"]}"')
    if rows(spec, "schedulingGates"):
        raise conflict("pods/binding", name, f"pod {name} has non-empty .spec.schedulingGates")


def _bound(pod: Body, node: str, labels: Body, annotations: Body, now: str) -> Body:
    """The pod on its node. Not a change of its spec in the sense of `generation`: the author asked for nothing new."""
    metadata = dict(meta(pod))
    for field, added in (("labels", labels), ("annotations", annotations)):
        if added:
            metadata[field] = part(metadata, field) | added
    status = {field: value for field, value in part(pod, "status").items() if field != "nominatedNodeName"}
    others = [c for c in status.get("conditions", []) if c.get("type") != _SCHEDULED]
    status["conditions"] = [*others, {"type": _SCHEDULED, "status": "True", "lastTransitionTime": now}]
    return pod | {"metadata": metadata, "spec": pod["spec"] | {"nodeName": node}, "status": status}
