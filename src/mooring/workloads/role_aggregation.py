"""Aggregated cluster roles: gives those with an `aggregationRule` the rules of the roles it selects.

The shell around `api.role_aggregation`. What else stands in the rules of such a role is replaced, as upstream has it.
"""

from typing import Any, Final

import msgspec
import structlog

from mooring.api.errors import NotFound
from mooring.api.kinds import CLUSTER_ROLE
from mooring.api.label_selector import SelectorError
from mooring.api.patches.contract import MergePatch
from mooring.api.role_aggregation import aggregated_rules
from mooring.api.views.access import ClusterRole, PolicyRule
from mooring.control.component import Context
from mooring.control.worker import work

WORKERS: Final = 1

log = structlog.get_logger(__name__)


class RoleAggregationController:
    name = "clusterrole-aggregation-controller"

    def __init__(self, context: Context) -> None:
        self._client = context.client
        self._roles = context.informers.of(CLUSTER_ROLE)
        self._queue = context.work_queue("clusterrole_aggregation")
        self.ready = False

    async def run(self) -> None:
        await self._roles.subscribe(self._on_role)
        self.ready = True
        await work(self._queue, self._sync, workers=WORKERS, name=self.name)

    def _on_role(self, before: ClusterRole | None, after: ClusterRole | None) -> None:
        """Any role may have become, or ceased to be, part of any aggregated one; there are few of those."""
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
            log.warning("a cluster role selects what nobody understands", role=name, why=str(problem))
            return
        if rules == (role.rules or ()):
            return
        body = {
            "metadata": {"resourceVersion": role.metadata.resource_version},
            "rules": [_body(rule) for rule in rules],
        }
        try:
            await self._client.patch(CLUSTER_ROLE, name, MergePatch(body))
        except NotFound:
            return


def _body(rule: PolicyRule) -> dict[str, Any]:
    said = msgspec.to_builtins(rule)
    return {field: list(values) for field, values in said.items() if values}
