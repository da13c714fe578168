"""ClusterRole aggregation, which replaces the rules of aggregated roles, and default service accounts."""

import contextlib
from typing import Final

import structlog
from msgspec import to_builtins

from mooring.api.errors import AlreadyExists, Forbidden, NotFound
from mooring.api.kinds import CLUSTER_ROLE, NAMESPACE, SERVICE_ACCOUNT
from mooring.api.patches.contract import MergePatch
from mooring.api.selectors import SelectorError
from mooring.api.views.core import ClusterRole, Namespace, aggregated_rules
from mooring.api.views.meta import ApiObject
from mooring.client.live_reads import get_or_none
from mooring.control.component import Context, Reconciler

log = structlog.get_logger(__name__)


class RoleAggregationController(Reconciler[str]):
    name = "clusterrole-aggregation-controller"

    def __init__(self, context: Context) -> None:
        super().__init__(context, context.work_queue("clusterrole_aggregation", CLUSTER_ROLE))
        self._roles = context.informers.of(CLUSTER_ROLE)

    async def _subscribe(self) -> None:
        await self._roles.subscribe(self._on_role)

    def _on_role(self, before: ClusterRole | None, after: ClusterRole | None) -> None:
        """Any role may be part of any aggregated role; there are few of those."""
        for role in self._roles.items():
            if role.aggregation_rule is not None:
                self._queue.add(role.name)

    async def _sync(self, name: str) -> None:
        role = self._roles.get(name)
        if role is None or role.aggregation_rule is None:
            return
        try:
            rules = aggregated_rules(role, self._roles.items())
        except SelectorError as problem:
            log.warning("aggregationRule selector invalid", role=name, error=str(problem))
            return
        if rules == (role.rules or ()):
            return
        bodies = [{field: list(values) for field, values in to_builtins(rule).items() if values} for rule in rules]
        body = {"metadata": {"resourceVersion": role.metadata.resource_version}, "rules": bodies}
        with contextlib.suppress(NotFound):
            await self._client.patch(CLUSTER_ROLE, name, MergePatch(body))


DEFAULT: Final = "default"


class ServiceAccountController(Reconciler[str]):
    name = "service-account-controller"

    def __init__(self, context: Context) -> None:
        super().__init__(context, context.work_queue("serviceaccount", NAMESPACE))
        self._namespaces = context.informers.of(NAMESPACE)
        self._accounts = context.informers.of(SERVICE_ACCOUNT)

    async def _subscribe(self) -> None:
        await self._accounts.synced.wait()
        await self._namespaces.subscribe(self._on_namespace)
        await self._accounts.subscribe(self._on_account)

    def _on_namespace(self, _: Namespace | None, after: Namespace | None) -> None:
        if after is not None:
            self._queue.add(after.name)

    def _on_account(self, before: ApiObject | None, after: ApiObject | None) -> None:
        if after is None and before is not None and before.name == DEFAULT:
            self._queue.add(before.namespace)

    async def _sync(self, name: str) -> None:
        namespace = self._namespaces.get(name)
        if namespace is None or namespace.deleting or self._accounts.get(f"{name}/{DEFAULT}") is not None:
            return
        try:
            await self._client.create(SERVICE_ACCOUNT, {"metadata": {"name": DEFAULT}}, namespace=name)
        except AlreadyExists:
            return
        except (Forbidden, NotFound) as refusal:
            # Race: the namespace is terminating, which the cache does not show yet.
            there = await get_or_none(self._client, NAMESPACE, name)
            if there is None or there.deleting:
                return
            raise refusal
        log.info("default service account created", namespace=name)
