"""The embedded API server without its sockets: every verb of the contract, on any store.

Runs wherever awaiting the store and the clock makes sense, which includes a virtual-time loop. Who asks is known by
the time a verb is called, and so is whether they may: authentication and authorization stand in front of this. What
they may grant to others, and questions about rights, are looked at here.
"""

import random
from collections.abc import Mapping
from typing import Any

from mooring.api.patches.contract import Patch
from mooring.clock import Clock
from mooring.server.contract import (
    Api,
    Batches,
    DeleteOptions,
    ListOptions,
    Page,
    Target,
    User,
    WatchOptions,
    WriteOptions,
    Written,
)
from mooring.server.environment import Compute, Environment, at_once
from mooring.server.objects import Objects
from mooring.server.security import Security
from mooring.server.verbs.apply import apply_object
from mooring.server.verbs.bind import bind_pod
from mooring.server.verbs.create import create_object
from mooring.server.verbs.delete import delete_object
from mooring.server.verbs.delete_collection import delete_objects
from mooring.server.verbs.evict import evict_pod
from mooring.server.verbs.get import get_object
from mooring.server.verbs.list import list_objects
from mooring.server.verbs.patch import patch_object
from mooring.server.verbs.review import REVIEWS, create_review
from mooring.server.verbs.scale import SCALE, get_scale, patch_scale, update_scale
from mooring.server.verbs.token import TOKEN, create_token
from mooring.server.verbs.update import update_object
from mooring.server.verbs.watch import watch_objects
from mooring.store.contract import Store


class ApiServer:
    """Times come from `clock`, uids and generated names from `rng`: the same seed gives the same objects.

    `claim_rollback` is the feature gate of that name; `off_loop` runs the steps of large requests.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        rng: random.Random,
        security: Security | None = None,
        *,
        claim_rollback: bool = False,
        off_loop: Compute = at_once,
    ) -> None:
        self._environment = Environment(
            Objects(store),
            clock,
            rng,
            security=security or Security(),
            claim_rollback=claim_rollback,
            off_loop=off_loop,
        )

    async def get(self, user: User, target: Target, *, resource_version: str = "") -> bytes:
        if target.subresource == SCALE:
            return await get_scale(self._environment, target)
        return await get_object(self._environment, target, resource_version)

    async def list(self, user: User, target: Target, options: ListOptions) -> Page:
        return await list_objects(self._environment, target, options)

    async def watch(self, user: User, target: Target, options: WatchOptions) -> Batches:
        return await watch_objects(self._environment, target, options)

    async def create(self, user: User, target: Target, body: Mapping[str, Any], options: WriteOptions) -> Written:
        environment = self._environment.of(user)
        if target.kind in REVIEWS:
            return await create_review(environment, target, body, options)
        if target.subresource == TOKEN:
            return await create_token(environment, target, body, options)
        return await create_object(environment, target, body, options)

    async def update(self, user: User, target: Target, body: Mapping[str, Any], options: WriteOptions) -> Written:
        if target.subresource == SCALE:
            return await update_scale(self._environment.of(user), target, body, options)
        return await update_object(self._environment.of(user), target, body, options)

    async def patch(self, user: User, target: Target, patch: Patch, options: WriteOptions) -> Written:
        if target.subresource == SCALE:
            return await patch_scale(self._environment.of(user), target, patch, options)
        return await patch_object(self._environment.of(user), target, patch, options)

    async def apply(
        self, user: User, target: Target, body: Mapping[str, Any], options: WriteOptions, *, force: bool
    ) -> Written:
        return await apply_object(self._environment.of(user), target, body, options, force=force)

    async def delete(self, user: User, target: Target, options: DeleteOptions) -> Written:
        return await delete_object(self._environment, target, options)

    async def delete_collection(
        self, user: User, target: Target, selection: ListOptions, options: DeleteOptions
    ) -> Page:
        return await delete_objects(self._environment, target, selection, options)

    async def bind(self, user: User, target: Target, body: Mapping[str, Any], options: WriteOptions) -> Written:
        return await bind_pod(self._environment, target, body, options)

    async def evict(self, user: User, target: Target, body: Mapping[str, Any], options: WriteOptions) -> Written:
        return await evict_pod(self._environment, target, body, options)


_contract: type[Api] = ApiServer
