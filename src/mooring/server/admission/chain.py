"""The admission steps of each kind, in order, and those of all kinds but pods: namespaces, RBAC, storage and warnings.

Privilege escalation: a role may contain only rules that its writer has, unless the writer may `escalate` the role; a
binding may reference only a role whose rules its writer has, unless the writer may `bind` the role. Otherwise the
permission to write roles would be the permission to do anything. Messages are kube-apiserver's.

Claim rollback: a bound claim keeps its volume, unless the gate ClaimRollback is on, the claim is clean and marked for
rollback, the user has the verb `unbind`, and no pod that uses the claim was admitted to a node. Validation checks the
first two conditions of the claim. Then the mark is protected too, because the unbinding relies on it.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from mooring.api import kinds, quantity, well_known
from mooring.api.documents import Body
from mooring.api.errors import Cause, Details, Forbidden, forbidden, invalid, not_found
from mooring.api.kinds import Kind
from mooring.api.views.core import PolicyRule
from mooring.api.views.storage import Claim, default_class
from mooring.server.admission import pods
from mooring.server.auth import rbac
from mooring.server.auth.coverage import MissingRights, RulesTooWide, missing_rights
from mooring.server.encoding import meta, part
from mooring.server.environment import AdmissionRequest, Step
from mooring.server.kinds.claims import IMMUTABLE, loses_volume, requested_size
from mooring.volumes.claim_rollback import ROLLBACK, may_have_used_volumes, may_unbind, unbound_from
from mooring.volumes.in_tree import GA_LABELS, ZONE_KEYS, ZONE_PARAMETERS, zonal_affinity, zone_parameters


async def warn_passive_kind(review: AdmissionRequest) -> None:
    kind = review.kind
    name = f"{kind.plural}.{kind.group}" if kind.group else kind.plural
    review.warnings.append(f"{name}: this server keeps them as data only; no component of it acts on them")


#: Namespaces that cannot be deleted; kube-apiserver allows it for `kube-node-lease`, which it creates again at once.
SYSTEM_NAMESPACES: Final = frozenset({"default", "kube-node-lease", "kube-public", "kube-system"})


async def require_namespace(review: AdmissionRequest) -> None:
    name = review.namespace
    namespace = await review.objects.view(kinds.NAMESPACE, "", name)
    if namespace is None:
        raise not_found(kinds.NAMESPACE.plural, name)
    if namespace.deleting:
        cause = Cause("NamespaceTerminating", f"namespace {name} is being terminated", "metadata.namespace")
        raise review.forbidden(
            f"unable to create new content in namespace {name} because it is being terminated", cause
        )


async def add_contents_finalizer(review: AdmissionRequest) -> None:
    """Adds the finalizer that the namespace controller removes after deleting the contents."""
    finalizers = review.new["spec"].setdefault("finalizers", [])
    if well_known.NAMESPACE_CONTENTS not in finalizers:
        finalizers.append(well_known.NAMESPACE_CONTENTS)


def protect_system_namespaces(name: str) -> None:
    if name in SYSTEM_NAMESPACES:
        raise Forbidden(
            f'namespaces "{name}" is forbidden: this namespace may not be deleted',
            details=Details(name=name, kind=kinds.NAMESPACE.plural),
        )


#: Metadata that may change without an escalation check: what the garbage collector writes, and managedFields.
_UNCHECKED_METADATA: Final = frozenset({"ownerReferences", "finalizers", "selfLink", "managedFields"})


async def refuse_escalation(review: AdmissionRequest) -> None:
    """For Roles and ClusterRoles."""
    kind = review.kind
    if rbac.is_master(review.user):
        return
    escalate = rbac.ResourceRequest("escalate", kind.group, kind.plural, "", review.namespace, review.requested_name)
    if (await review.access.decide(review.user, escalate)).allowed:
        return
    if _only_changes_unchecked(review):
        return
    await _require_held(review, _rules(review.new))
    aggregates = _aggregates(review.new) or _aggregates(review.old or {})
    if aggregates and _lacking(review, await _held(review), rbac.FULL_AUTHORITY).rights:
        raise review.forbidden("must have cluster-admin privileges to use the aggregationRule")


async def refuse_unheld_role(review: AdmissionRequest) -> None:
    """For RoleBindings and ClusterRoleBindings."""
    if rbac.is_master(review.user) or _only_changes_unchecked(review):
        return
    ref = part(review.new, "roleRef")
    of_namespace = ref.get("kind") == "Role"
    name = ref.get("name", "")
    plural = "roles" if of_namespace else "clusterroles"
    bind = rbac.ResourceRequest("bind", review.kind.group, plural, "", review.namespace, name)
    if (await review.access.decide(review.user, bind)).allowed:
        return
    rules = await review.access.role(review.namespace if of_namespace else "", name)
    if rules is None:
        # kube-apiserver names the resource of the binding, although the role was not found.
        raise not_found(review.kind.plural, name, group=review.kind.group)
    await _require_held(review, rules)


async def _require_held(review: AdmissionRequest, granted: Sequence[PolicyRule]) -> None:
    held = await _held(review)
    missing = _lacking(review, held, granted)
    if missing.rights:
        listed = "\n".join(sorted({rbac.described(rule) for rule in rbac.compacted(missing.rights)}))
        if missing.more:
            listed += f"\nand {missing.more} more"
        unresolved = ""
        if held.missing:
            unresolved = f"; resolution errors: [{rbac.missing_roles(held.missing, called=review.kind.plural)}]"
        user = review.user
        raise review.forbidden(
            f'user "{user.name}" (groups={rbac.quoted(user.groups)}) is attempting to grant RBAC permissions '
            f"not currently held:\n{listed}{unresolved}"
        )


def _lacking(review: AdmissionRequest, held: rbac.UserRules, granted: Sequence[PolicyRule]) -> MissingRights:
    try:
        return missing_rights(held.rules, granted)
    except RulesTooWide as problem:
        raise review.forbidden(str(problem)) from problem


async def _held(review: AdmissionRequest) -> rbac.UserRules:
    return await review.access.rules_of(review.user, review.namespace)


def _rules(role: Body) -> Sequence[PolicyRule]:
    return msgspec.convert(role.get("rules", []), tuple[PolicyRule, ...])


def _aggregates(role: Body) -> bool:
    return bool(part(role, "aggregationRule").get("clusterRoleSelectors"))


def _only_changes_unchecked(review: AdmissionRequest) -> bool:
    """Whether an update changes only metadata such as owner references and finalizers.

    Labels count as a change: they make a role part of aggregated roles, whose subjects get its rules. As in
    kube-apiserver, an update without uid, resourceVersion or creation time counts as a change too.
    """
    if review.old is None:
        return False
    sent = {name: value for name, value in review.sent_metadata.items() if name not in _UNCHECKED_METADATA}
    kept = {name: value for name, value in meta(review.old).items() if name not in _UNCHECKED_METADATA}
    return sent == kept and review.new | {"metadata": None} == review.old | {"metadata": None}


async def warn_missing_cluster_ip(review: AdmissionRequest) -> None:
    spec = review.new["spec"]
    if spec["type"] != "ExternalName" and "clusterIP" not in spec:
        review.warnings.append("spec.clusterIP: this server assigns no addresses; services are kept as data only")


#: Verb of RBAC rules on claims; not a verb of requests.
UNBIND: Final = "unbind"


async def guard_mark(review: AdmissionRequest) -> None:
    """While a claim is being rolled back, only users with the verb `unbind` may change the mark."""
    before, after = (part(meta(obj), "annotations").get(ROLLBACK) for obj in (review.old or {}, review.new))
    if before is None or before == after or not review.environment.claim_rollback:
        return
    if unbound_from(msgspec.convert(review.old, Claim)):
        await _require_unbind(review)


async def _require_unbind(review: AdmissionRequest) -> None:
    kind = review.kind
    unbind = rbac.ResourceRequest(UNBIND, kind.group, kind.plural, "", review.namespace, meta(review.new)["name"])
    if not (await review.access.decide(review.user, unbind)).allowed:
        raise review.forbidden(f'user "{review.user.name}" may not {UNBIND} claims')


async def guard_unbinding(review: AdmissionRequest) -> None:
    if review.old is None or not loses_volume(review.new, review.old):
        return
    claim = msgspec.convert(review.old, Claim)
    if not may_unbind(claim):
        return  # validation rejects it
    kind, name = review.kind, meta(review.new)["name"]
    if not review.environment.claim_rollback:
        raise invalid(kind.kind, name, [forbidden("spec", IMMUTABLE)], group=kind.group)
    await _require_unbind(review)
    for pod in await review.objects.views(kinds.POD, review.namespace):
        if may_have_used_volumes(pod) and claim.key in pod.claim_keys:
            raise review.forbidden(f'pod "{pod.name}" on node "{pod.spec.node_name}" may have used its volume')


async def choose_default_class(review: AdmissionRequest) -> None:
    """DefaultStorageClass: for claims without a class; the empty class counts as one."""
    spec = review.new["spec"]
    if "storageClassName" in spec or well_known.STORAGE_CLASS_BETA in part(meta(review.new), "annotations"):
        return
    if name := default_class(await review.objects.views(kinds.STORAGE_CLASS)):
        spec["storageClassName"] = name


_PROTECTION: Final[Mapping[Kind[Any], str]] = {
    kinds.CLAIM: well_known.PVC_PROTECTION,
    kinds.VOLUME: well_known.PV_PROTECTION,
    kinds.POD_GROUP: well_known.POD_GROUP_PROTECTION,
    kinds.POD_GROUP_ALPHA: well_known.POD_GROUP_PROTECTION,
}


async def protect(review: AdmissionRequest) -> None:
    """StorageObjectInUseProtection and PodGroupProtection: a controller removes the finalizer when the object is
    unused."""
    finalizer = _PROTECTION[review.kind]
    finalizers = meta(review.new).setdefault("finalizers", [])
    if finalizer not in finalizers:
        finalizers.append(finalizer)


async def warn_fractional_bytes(review: AdmissionRequest) -> None:
    request = part(review.new, "spec", "resources", "requests").get("storage", "0")
    if quantity.parse(request) % quantity.NANOS_PER_UNIT:
        review.warnings.append(
            f'spec.resources.requests[storage]: fractional byte value "{request}" is invalid, must be an integer'
        )


async def check_growth(review: AdmissionRequest) -> None:
    """PersistentVolumeClaimResize: a claim may request more only if its class allows expansion."""
    if review.old is None or requested_size(review.new) <= requested_size(review.old):
        return
    legacy = part(meta(review.new), "annotations").get(well_known.STORAGE_CLASS_BETA)
    name = part(review.new, "spec").get("storageClassName", "") if legacy is None else legacy
    storage_class = await review.objects.view(kinds.STORAGE_CLASS, "", name) if name else None
    if storage_class is None or not storage_class.allow_volume_expansion:
        raise review.forbidden(
            "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must "
            "support resize"
        )
    review.warnings.append(
        "spec.resources.requests[storage]: this server resizes no volumes; the claim keeps its size until a resizer "
        "that you run expands it"
    )


#: Of how many nodes the label keys are read: nodes of a cluster have the same.
NODES_READ: Final = 50


async def set_zonal_affinity(review: AdmissionRequest) -> None:
    """PersistentVolumeLabel: a new volume with zone labels and without node affinity gets the affinity of its labels.

    Not a local volume: its affinity must be its node, which validation requires. On other clusters the zonal upgrade
    controller does this.
    """
    labels, spec = part(meta(review.new), "labels"), part(review.new, "spec")
    if spec.get("nodeAffinity") or "local" in spec or labels.keys().isdisjoint(ZONE_KEYS):
        return
    node_keys: set[str] = set()
    if not labels.keys().isdisjoint(GA_LABELS):
        nodes = await review.objects.list(kinds.NODE, "", limit=NODES_READ)
        node_keys.update(key for record in nodes.records for key in kinds.NODE.decode(record.value).metadata.labels)
    affinity = zonal_affinity(labels, node_keys)
    if affinity is not None:
        review.new["spec"]["nodeAffinity"] = affinity


async def refuse_two_topologies(review: AdmissionRequest) -> None:
    """A class has its zones in parameters or in allowedTopologies, not in both. On other clusters a
    ValidatingAdmissionPolicy under `deploy/` checks this."""
    if _has_two_topologies(review.new) and (review.old is None or not _has_two_topologies(review.old)):
        raise review.forbidden(
            f"allowedTopologies and the deprecated parameters {' and '.join(ZONE_PARAMETERS)} both say where volumes "
            "may be made: use allowedTopologies alone"
        )


def _has_two_topologies(storage_class: Body) -> bool:
    view = kinds.STORAGE_CLASS.decode(msgspec.json.encode(storage_class))
    return bool(view.allowed_topologies) and bool(zone_parameters(view))


_ACCESS: Final[Mapping[Kind[Any], tuple[Step, ...]]] = {
    **dict.fromkeys((kinds.ROLE, kinds.CLUSTER_ROLE), (refuse_escalation,)),
    **dict.fromkeys((kinds.ROLE_BINDING, kinds.CLUSTER_ROLE_BINDING), (refuse_unheld_role,)),
}
_CREATE: Final[Mapping[Kind[Any], tuple[Step, ...]]] = {
    kinds.POD: (
        pods.resolve_priority,
        pods.default_service_account,
        pods.add_default_tolerations,
        pods.label_with_topology,
    ),
    kinds.CLAIM: (choose_default_class, protect, warn_fractional_bytes),
    kinds.VOLUME: (protect, set_zonal_affinity),
    **dict.fromkeys((kinds.POD_GROUP, kinds.POD_GROUP_ALPHA), (pods.resolve_group_priority, protect)),
    kinds.STORAGE_CLASS: (refuse_two_topologies,),
    kinds.SERVICE: (warn_missing_cluster_ip,),
    kinds.NAMESPACE: (add_contents_finalizer,),
    kinds.PRIORITY_CLASS: (pods.keep_one_default,),
    **dict.fromkeys(kinds.PASSIVE, (warn_passive_kind,)),
    **_ACCESS,
}
_UPDATE: Final[Mapping[Kind[Any], tuple[Step, ...]]] = {
    kinds.POD: (pods.keep_priority, pods.keep_service_account, pods.add_default_tolerations),
    kinds.CLAIM: (guard_unbinding, guard_mark),
    kinds.PRIORITY_CLASS: (pods.keep_one_default,),
    kinds.STORAGE_CLASS: (refuse_two_topologies,),
    **_ACCESS,
}
#: Steps after validation, which may reject but not change the object.
_VALID_UPDATE: Final[Mapping[Kind[Any], tuple[Step, ...]]] = {kinds.CLAIM: (check_growth,)}


async def admit(review: AdmissionRequest) -> None:
    """The steps before validation; the first that raises ends the write."""
    if review.old is None:
        if review.kind.namespaced:
            await require_namespace(review)
        steps = _CREATE.get(review.kind, ())
    else:
        steps = _UPDATE.get(review.kind, ())
    for step in steps:
        await step(review)


async def admit_valid(review: AdmissionRequest) -> None:
    """The steps after validation: an invalid update is rejected as invalid first."""
    if review.old is not None:
        for step in _VALID_UPDATE.get(review.kind, ()):
            await step(review)
