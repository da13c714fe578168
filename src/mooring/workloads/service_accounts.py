"""Service accounts: every namespace has one called `default`, made again when somebody deletes it.

Pods that name no account run as this one. Tokens are made on request by the API server, so there is nothing else to do.
"""

from typing import Final

import structlog

from mooring.api.errors import AlreadyExists, Forbidden, NotFound
from mooring.api.kinds import NAMESPACE, SERVICE_ACCOUNT
from mooring.api.views.meta import ApiObject
from mooring.api.views.namespace import Namespace
from mooring.control.component import Context
from mooring.control.worker import work

DEFAULT: Final = "default"
WORKERS: Final = 1

log = structlog.get_logger(__name__)


class ServiceAccountController:
    name = "service-account-controller"

    def __init__(self, context: Context) -> None:
        self._client = context.client
        self._namespaces = context.informers.of(NAMESPACE)
        self._accounts = context.informers.of(SERVICE_ACCOUNT)
        self._queue = context.work_queue("serviceaccount")
        self.ready = False

    async def run(self) -> None:
        await self._accounts.synced.wait()
        await self._namespaces.subscribe(self._on_namespace)
        await self._accounts.subscribe(self._on_account)
        self.ready = True
        await work(self._queue, self._sync, workers=WORKERS, name=self.name)

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
            # SEEN: mostly that the namespace is going, which the cache does not know yet. It tells us if not.
            if await self._is_going(name):
                return
            raise refusal
        log.info("made the default service account", namespace=name)

    async def _is_going(self, name: str) -> bool:
        try:
            return (await self._client.get(NAMESPACE, name)).deleting
        except NotFound:
            return True
