"""Subresources with types of their own: `pods/binding`, `scale` of workloads and `serviceaccounts/token`.

A Scale is not stored: it is derived from the workload, and writing it is an update of the workload's `spec.replicas`.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

import msgspec

from mooring.api import errors, selectors
from mooring.api.documents import Body
from mooring.api.kinds import NODE, POD, SECRET, SERVICE_ACCOUNT, Kind
from mooring.api.names import check_dns1123_subdomain
from mooring.api.patches.contract import Patch
from mooring.api.times import to_time
from mooring.api.views.meta import ApiObject, LabelSelectorView
from mooring.server.admission.pods import topology_labels
from mooring.server.contract import SentBody, Target, WriteOptions, Written, require_endpoint
from mooring.server.decoding import read_as
from mooring.server.encoding import is_deleting, meta, part, rows
from mooring.server.environment import RequestContext
from mooring.server.kinds.registry import require_valid_update
from mooring.server.objects import retry_on_conflict
from mooring.server.verbs.write import CREATED, patched_as, replace

_SCHEDULED: Final = "PodScheduled"


async def bind_pod(context: RequestContext, target: Target, body: SentBody, options: WriteOptions) -> Written:
    """`target` is the pod."""
    binding, warnings = await context.run(partial(_decode_binding, target, body, options), options.body_bytes)
    node = binding["target"]["name"]
    labels = part(meta(binding), "labels") | await topology_labels(context.objects, node)

    async def attempt() -> None:
        stored = await context.objects.require(target)
        old = stored.decode()
        _check_binding(target.name, binding, old)
        new = _bound_pod(old, node, labels, part(meta(binding), "annotations"), context.now())
        require_valid_update(POD, new, old, "binding")
        if not options.dry_run:
            await context.objects.replace(stored, new)

    await retry_on_conflict(target, attempt)
    return Written(msgspec.json.encode(errors.success(code=CREATED)), CREATED, warnings)


def _decode_binding(target: Target, body: SentBody, options: WriteOptions) -> tuple[Body, tuple[str, ...]]:
    binding, warnings = read_as("v1", "Binding", body, options)
    if meta(binding).get("name") != target.name:
        raise errors.BadRequest("name in URL does not match name in Binding object")
    to = part(binding, "target")
    causes = []
    if to.get("kind", "Node") != "Node":
        causes.append(errors.unsupported("target.kind", to["kind"], ("Node", "<empty>")))
    if not (name := to.get("name")):
        causes.append(errors.required("target.name"))
    elif to.get("kind", "Node") == "Node":
        causes += [errors.bad_value("target.name", name, why) for why in check_dns1123_subdomain(name)]
    if causes:
        # kube-apiserver responds with 500 instead of Invalid.
        raise errors.UnknownError(", ".join(f"{cause.field}: {cause.message}" for cause in causes))
    return binding, warnings


def _check_binding(name: str, binding: Body, pod: Body) -> None:
    """Raises Conflict if the pod is another one, or cannot be bound."""
    uid, version = meta(binding).get("uid"), meta(binding).get("resourceVersion")
    if uid and uid != (actual := meta(pod)["uid"]):
        why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {actual}"
        raise errors.conflict("pods", name, why)
    if version and version != meta(pod)["resourceVersion"]:
        raise errors.conflict("pods", name)
    spec = part(pod, "spec")
    if is_deleting(pod):
        raise errors.conflict("pods/binding", name, f"pod {name} is being deleted, cannot be assigned to a host")
    if spec.get("nodeName"):
        raise errors.conflict("pods/binding", name, f'pod {name} is already assigned to node "{spec["nodeName"]}"')
    if rows(spec, "schedulingGates"):
        raise errors.conflict("pods/binding", name, f"pod {name} has non-empty .spec.schedulingGates")


def _bound_pod(pod: Body, node: str, labels: Body, annotations: Body, now: str) -> Body:
    """The pod with its node. `generation` stays: the user changed nothing."""
    metadata = dict(meta(pod))
    for field, added in (("labels", labels), ("annotations", annotations)):
        if added:
            metadata[field] = part(metadata, field) | added
    status = {field: value for field, value in part(pod, "status").items() if field != "nominatedNodeName"}
    others = [c for c in status.get("conditions", []) if c.get("type") != _SCHEDULED]
    status["conditions"] = [*others, {"type": _SCHEDULED, "status": "True", "lastTransitionTime": now}]
    return pod | {"metadata": metadata, "spec": pod["spec"] | {"nodeName": node}, "status": status}


SCALE: Final = "scale"
_SCALE_API_VERSION: Final = "autoscaling/v1"
_SCALE_KIND: Final = "Scale"
#: Metadata that a Scale has of its workload.
_IDENTITY: Final = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


async def get_scale(context: RequestContext, target: Target) -> bytes:
    require_endpoint(target, "get")
    return msgspec.json.encode(_scale_of((await context.objects.require(target)).decode()))


async def update_scale(context: RequestContext, target: Target, body: SentBody, options: WriteOptions) -> Written:
    require_endpoint(target, "update")
    read = partial(read_as, _SCALE_API_VERSION, _SCALE_KIND, body, options)
    given, warnings = await context.run(read, options.body_bytes)
    if meta(given).get("name") not in (None, target.name):
        raise errors.BadRequest("the name of the object does not match the name on the URL")
    return await _write(context, target, lambda _: (given, warnings), options)


async def patch_scale(context: RequestContext, target: Target, patch: Patch, options: WriteOptions) -> Written:
    require_endpoint(target, "patch")
    validation = options.field_validation
    return await _write(
        context, target, lambda scale: patched_as(_SCALE_API_VERSION, _SCALE_KIND, scale, patch, validation), options
    )


async def _write(
    context: RequestContext,
    target: Target,
    change: Callable[[Body], tuple[Body, tuple[str, ...]]],
    options: WriteOptions,
) -> Written:
    whole = Target(target.kind, target.namespace, target.name)

    async def attempt() -> Written:
        stored = await context.objects.require(whole)
        old = stored.decode()
        desired, warnings = change(_scale_of(old))
        _check_scale(whole, desired, old)
        new = old | {"metadata": dict(meta(old)), "spec": old["spec"] | {"replicas": _replicas(target, desired)}}
        written = await replace(context, whole, stored, old, new, options, warnings=warnings, through=SCALE)
        scale = _scale_of(msgspec.json.decode(written.body))
        return Written(msgspec.json.encode(scale), written.code, written.warnings)

    return await retry_on_conflict(whole, attempt)


def _check_scale(target: Target, desired: Body, old: Body) -> None:
    """A resourceVersion or uid in the Scale is a precondition. Raises Conflict."""
    for field in ("resourceVersion", "uid"):
        if meta(desired).get(field) not in (None, "", meta(old)[field]):
            raise errors.conflict(target.kind.plural, target.name, group=target.kind.group)


def _replicas(target: Target, desired: Body) -> int:
    replicas = part(desired, "spec").get("replicas", 0)
    assert isinstance(replicas, int)
    if replicas < 0:
        cause = errors.bad_value("spec.replicas", replicas, "must be greater than or equal to 0")
        raise errors.invalid(_SCALE_KIND, target.name, [cause], group="autoscaling")
    return replicas


def _scale_of(obj: Body) -> Body:
    view = msgspec.convert(part(obj, "spec").get("selector", {}), LabelSelectorView)
    selector = selectors.label_selector_from_view(view)
    return {
        "kind": _SCALE_KIND,
        "apiVersion": _SCALE_API_VERSION,
        "metadata": {field: meta(obj)[field] for field in _IDENTITY if field in meta(obj)},
        "spec": {"replicas": part(obj, "spec").get("replicas", 1)},
        "status": {"replicas": part(obj, "status").get("replicas", 0), "selector": str(selector)},
    }


TOKEN: Final = "token"
_TOKEN_GROUP: Final = "authentication.k8s.io"
_TOKEN_API_VERSION: Final = f"{_TOKEN_GROUP}/v1"
_TOKEN_KIND: Final = "TokenRequest"

#: Token lifetime, with kube-apiserver's default and bounds.
DEFAULT_SECONDS: Final = 3600
MIN_SECONDS: Final = 600
MAX_SECONDS: Final = 1 << 32

#: Kinds a token can be bound to: all of the core group.
_BINDABLE: Final[Mapping[str, Kind[Any]]] = {kind.kind: kind for kind in (POD, SECRET, NODE)}


async def create_token(context: RequestContext, target: Target, body: SentBody, options: WriteOptions) -> Written:
    """`target` is the service account."""
    issuer = context.security.accounts
    if issuer is None:
        raise errors.NotSupported("this server has no key to sign service account tokens with")
    read = partial(read_as, _TOKEN_API_VERSION, _TOKEN_KIND, body, options)
    request, warnings = await context.run(read, options.body_bytes)
    _check_token_request(target, request)
    spec = part(request, "spec")
    account = await context.objects.view(SERVICE_ACCOUNT, target.namespace, target.name)
    if account is None:
        raise errors.not_found(SERVICE_ACCOUNT.plural, target.name)
    reference = spec.get("boundObjectRef")
    bound = {} if reference is None else await _bound_objects(context, account, reference)
    audiences, seconds = spec.get("audiences") or issuer.audiences, spec.get("expirationSeconds", DEFAULT_SECONDS)
    issued = issuer.issue(account, audiences=audiences, seconds=seconds, token_id=context.new_uid(), bound=bound)
    answer = {
        "kind": _TOKEN_KIND,
        "apiVersion": _TOKEN_API_VERSION,
        "metadata": {
            "name": account.name,
            "namespace": account.namespace,
            "uid": account.uid,
            "creationTimestamp": context.now(),
        },
        "spec": {"audiences": audiences, "expirationSeconds": seconds, "boundObjectRef": reference},
        "status": {"token": issued.token, "expirationTimestamp": to_time(issued.expires)},
    }
    return Written(msgspec.json.encode(answer), CREATED, warnings)


def _check_token_request(target: Target, request: Body) -> None:
    """Raises Invalid."""
    for field, expected in (("name", target.name), ("namespace", target.namespace)):
        given = meta(request).get(field, expected)
        if given != expected:
            cause = errors.bad_value(f"metadata.{field}", given, f"must match the service account {field} if specified")
            raise errors.invalid(_TOKEN_KIND, target.name, [cause], group=_TOKEN_GROUP)
    seconds, path = part(request, "spec").get("expirationSeconds", DEFAULT_SECONDS), "spec.expirationSeconds"
    if seconds < MIN_SECONDS:
        cause = errors.bad_value(path, seconds, "may not specify a duration less than 10 minutes")
    elif seconds > MAX_SECONDS:
        cause = errors.bad_value(path, seconds, "may not specify a duration larger than 2^32 seconds")
    else:
        return
    raise errors.invalid(_TOKEN_KIND, meta(request).get("name", ""), [cause], group=_TOKEN_GROUP)


async def _bound_objects(context: RequestContext, account: ApiObject, reference: Body) -> dict[str, ApiObject]:
    """The objects with which the token becomes invalid: the referenced one, and for a pod also its node."""
    version, kind_name, name = (reference.get(field, "") for field in ("apiVersion", "kind", "name"))
    if version != "v1" or kind_name not in _BINDABLE:
        raise errors.BadRequest(f"cannot bind token to object of type /{version}, Kind={kind_name}")
    kind = _BINDABLE[kind_name]
    found = await context.objects.find(kind, account.namespace if kind.namespaced else "", name)
    if found is None:
        raise errors.not_found(kind.plural, name)
    view: ApiObject = kind.decode(found.body)
    uid = reference.get("uid", "")
    if uid not in ("", view.uid):
        why = (
            f"the UID in the bound object reference ({uid}) does not match the UID in record. "
            "The object might have been deleted and then recreated"
        )
        raise errors.conflict(kind.kind, name, why)
    bound = {kind.singular: view}
    if kind is POD:
        spec = part(found.decode(), "spec")
        if spec.get("serviceAccountName", "") != account.name:
            raise errors.BadRequest(
                f'cannot bind token for serviceaccount "{account.name}" to pod running with different '
                "serviceaccount name."
            )
        node = await context.objects.view(NODE, "", spec["nodeName"]) if spec.get("nodeName") else None
        if node is not None:
            bound["node"] = node
    return bound
