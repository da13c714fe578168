"""Putting the default policy in place at start, without taking anything back that people changed.

What is missing is made: roles, rules of roles, bindings, subjects of bindings. What somebody added stays. A role or
binding annotated `rbac.authorization.kubernetes.io/autoupdate: "false"` is left alone. So a new release brings new
rights, and a cluster from which a needed right was removed has it back after a restart; as upstream does it.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar

import msgspec

from mooring.api.errors import AlreadyExists, NotFound
from mooring.api.kinds import CLUSTER_ROLE, CLUSTER_ROLE_BINDING, ROLE, ROLE_BINDING, Kind
from mooring.api.patches.contract import MergePatch
from mooring.api.role_aggregation import aggregated_rules
from mooring.api.views.access import ClusterRole, PolicyRule, Role, Subject
from mooring.api.views.meta import ApiObject
from mooring.server.authorization.attributes import MASTERS
from mooring.server.authorization.controller_roles import CONTROLLER_BINDINGS, CONTROLLER_ROLES
from mooring.server.authorization.coverage import uncovered
from mooring.server.authorization.default_roles import DEFAULT_BINDINGS, DEFAULT_ROLES
from mooring.server.authorization.policy import (
    AUTO_UPDATE,
    BOOTSTRAPPING,
    DEFAULTS,
    BindingRow,
    RoleRow,
    rule_body,
    subject_body,
)
from mooring.server.authorization.rules import compacted
from mooring.server.contract import Api, DeleteOptions, ListOptions, Target, User, WriteOptions

V = TypeVar("V", bound=ApiObject)

#: Who the server is to itself.
SERVER: Final = User("system:apiserver", (MASTERS, "system:authenticated"))

ROLES: Final[tuple[RoleRow, ...]] = (*DEFAULT_ROLES, *CONTROLLER_ROLES)
BINDINGS: Final[tuple[BindingRow, ...]] = (*DEFAULT_BINDINGS, *CONTROLLER_BINDINGS)

_STRICT: Final = WriteOptions(field_validation="Strict", field_manager="mooring-apiserver")


async def reconcile(api: Api, roles: Iterable[RoleRow] = ROLES, bindings: Iterable[BindingRow] = BINDINGS) -> None:
    """Namespaces that are named must exist. All at once, so that a store which commits in groups does so."""
    async with asyncio.TaskGroup() as group:
        for row in roles:
            group.create_task(_reconcile_role(api, row))
    await _fill_aggregated(api)
    async with asyncio.TaskGroup() as group:
        for wanted in bindings:
            group.create_task(_reconcile_binding(api, wanted))


async def _reconcile_role(api: Api, row: RoleRow) -> None:
    kind: Kind[Role] = ROLE if row.namespace else CLUSTER_ROLE
    target = Target(kind, row.namespace, row.name)
    found = await _find_or_create(api, kind, target, row.body())
    if found is None:
        return
    patch: dict[str, Any] = {}
    if missing := uncovered(found.rules or (), row.rules):
        patch["rules"] = [rule_body(rule) for rule in (*(found.rules or ()), *compacted(missing))]
    if labels := {key: value for key, value in row.labels.items() if found.metadata.labels.get(key) != value}:
        patch["metadata"] = {"labels": labels}
    if row.made_of and isinstance(found, ClusterRole) and found.aggregation_rule is None:
        patch["aggregationRule"] = row.body()["aggregationRule"]
    if patch:
        await api.patch(SERVER, target, MergePatch(patch), _STRICT)


async def _reconcile_binding(api: Api, row: BindingRow) -> None:
    kind = ROLE_BINDING if row.namespace else CLUSTER_ROLE_BINDING
    target, body = Target(kind, row.namespace, row.name), row.body()
    found = await _find_or_create(api, kind, target, body)
    if found is None:
        return
    if (found.role_ref.kind, found.role_ref.name) != (body["roleRef"]["kind"], body["roleRef"]["name"]):
        # A roleRef cannot change; what somebody put in the place of ours makes way, as upstream has it.
        await api.delete(SERVER, target, DeleteOptions(uid=found.uid))
        await _find_or_create(api, kind, target, body)
        return
    known = {_identity(subject) for subject in found.subjects}
    if missing := [subject for subject in row.subjects if _identity(subject) not in known]:
        subjects = [subject_body(subject) for subject in (*found.subjects, *missing)]
        await api.patch(SERVER, target, MergePatch({"subjects": subjects}), _STRICT)


async def _find_or_create(api: Api, kind: Kind[V], target: Target, body: Mapping[str, Any]) -> V | None:
    """The object, if it was there and may be changed; None where there is nothing more to do."""
    try:
        found = kind.decode(await api.get(SERVER, target))
    except NotFound:
        labels = {BOOTSTRAPPING: DEFAULTS} | body["metadata"].get("labels", {})
        metadata = body["metadata"] | {"labels": labels, "annotations": {AUTO_UPDATE: "true"}}
        try:
            await api.create(SERVER, Target(target.kind, target.namespace), {**body, "metadata": metadata}, _STRICT)
            return None
        except AlreadyExists:
            # Another server on the same store starts as well.
            found = kind.decode(await api.get(SERVER, target))
    return None if found.metadata.annotations.get(AUTO_UPDATE) == "false" else found


async def _fill_aggregated(api: Api) -> None:
    """Roles that are made of others have their rules from the first moment, with no controller to wait for."""
    page = await api.list(SERVER, Target(CLUSTER_ROLE), ListOptions())
    roles = {role.name: role for role in map(CLUSTER_ROLE.decode, page.items)}
    for _ in roles:
        changed = {name: rules for name, role in roles.items() if (rules := _changed_rules(role, roles.values()))}
        if not changed:
            return
        for name, rules in changed.items():
            roles[name] = msgspec.structs.replace(roles[name], rules=rules)
            patch = MergePatch({"rules": [rule_body(rule) for rule in rules]})
            await api.patch(SERVER, Target(CLUSTER_ROLE, name=name), patch, _STRICT)


def _changed_rules(role: ClusterRole, roles: Iterable[ClusterRole]) -> Sequence[PolicyRule]:
    if role.aggregation_rule is None:
        return ()
    rules = aggregated_rules(role, roles)
    return rules if rules != (role.rules or ()) else ()


def _identity(subject: Subject) -> tuple[str, str, str]:
    return subject.kind, subject.namespace, subject.name
