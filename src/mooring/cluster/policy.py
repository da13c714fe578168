"""The rights of a new cluster, put in place before anybody may ask: Kubernetes' defaults, and Mooring's components."""

import asyncio
import contextlib
from collections.abc import Mapping
from typing import Any

from mooring.api.errors import AlreadyExists
from mooring.api.kinds import SERVICE_ACCOUNT
from mooring.client.contract import Client
from mooring.cluster import identities
from mooring.cluster.bootstrap import system_namespaces
from mooring.cluster.local_client import LocalClient
from mooring.server.authorization.bootstrap import BINDINGS, ROLES, SERVER, reconcile
from mooring.server.contract import Api


async def install_policy(api: Api) -> None:
    """At every start: what is there is left alone, what is missing comes."""
    client = LocalClient(api, SERVER)
    await system_namespaces(client)
    await reconcile(api, (*ROLES, *identities.roles()), (*BINDINGS, *identities.bindings()))
    async with asyncio.TaskGroup() as group:
        for body in identities.accounts():
            group.create_task(_ensure_account(client, body))


async def _ensure_account(client: Client, body: Mapping[str, Any]) -> None:
    with contextlib.suppress(AlreadyExists):
        await client.create(SERVICE_ACCOUNT, body, namespace=identities.NAMESPACE)
