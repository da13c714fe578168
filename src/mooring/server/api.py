"""The Api without HTTP: dispatches each verb, on any store and clock, also in virtual time.

Callers are authenticated and authorized; escalation checks and access reviews are done here.
"""

import random

from mooring.api.patches.contract import Patch
from mooring.clock import Clock
from mooring.server import contract
from mooring.server.auth.authorizer import Security
from mooring.server.contract import DeleteOptions, ListOptions, SentBody, Target, User, WriteOptions, Written
from mooring.server.environment import Compute, RequestContext, at_once
from mooring.server.objects import Objects
from mooring.server.verbs.apply import apply_object
from mooring.server.verbs.delete import delete_object, delete_objects, evict_pod
from mooring.server.verbs.read import get_object, list_objects, watch_objects
from mooring.server.verbs.reviews import REVIEWS, create_review
from mooring.server.verbs.subresources import SCALE, TOKEN, bind_pod, create_token, get_scale, patch_scale, update_scale
from mooring.server.verbs.write import create_object, patch_object, update_object
from mooring.store.contract import Store


class ApiServer:
    """Deterministic for a `clock` and the seed of `rng` (uids, generated names).

    `claim_rollback` is the feature gate ClaimRollback; `off_loop` runs the steps of large requests.
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
        self._environment = RequestContext(
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

    async def list(self, user: User, target: Target, options: ListOptions) -> contract.Page:
        return await list_objects(self._environment, target, options)

    async def watch(self, user: User, target: Target, options: contract.WatchOptions) -> contract.Batches:
        return await watch_objects(self._environment, target, options)

    async def create(self, user: User, target: Target, body: SentBody, options: WriteOptions) -> Written:
        environment = self._environment.of(user)
        if target.kind in REVIEWS:
            return await create_review(environment, target, body, options)
        if target.subresource == TOKEN:
            return await create_token(environment, target, body, options)
        return await create_object(environment, target, body, options)

    async def update(self, user: User, target: Target, body: SentBody, options: WriteOptions) -> Written:
        if target.subresource == SCALE:
            return await update_scale(self._environment.of(user), target, body, options)
        return await update_object(self._environment.of(user), target, body, options)

    async def patch(self, user: User, target: Target, patch: Patch, options: WriteOptions) -> Written:
        if target.subresource == SCALE:
            return await patch_scale(self._environment.of(user), target, patch, options)
        return await patch_object(self._environment.of(user), target, patch, options)

    async def apply(self, user: User, target: Target, body: SentBody, options: WriteOptions, *, force: bool) -> Written:
        return await apply_object(self._environment.of(user), target, body, options, force=force)

    async def delete(self, user: User, target: Target, options: DeleteOptions) -> Written:
        return await delete_object(self._environment, target, options)

    async def delete_collection(
        self, user: User, target: Target, selection: ListOptions, options: DeleteOptions
    ) -> contract.Page:
        return await delete_objects(self._environment, target, selection, options)

    async def bind(self, user: User, target: Target, body: SentBody, options: WriteOptions) -> Written:
        return await bind_pod(self._environment, target, body, options)

    async def evict(self, user: User, target: Target, body: SentBody, options: WriteOptions) -> Written:
        return await evict_pod(self._environment, target, body, options)
