"""Informers that several components of a process share, as each of them may use them.

One watch and one copy per kind serve all; but nobody sees through them what its own role would not let it list and
watch. That is asked of the role as it is written down, when a component first reaches for a kind: a component that
outgrows its role fails at start, not in a corner case.
"""

from mooring.api.kinds import Kind
from mooring.client.contract import V
from mooring.client.informer import Informer, Informers
from mooring.cluster.identities import Identity
from mooring.server.authorization.attributes import Decision, ResourceRequest
from mooring.server.authorization.refusals import refusal
from mooring.server.authorization.rules import allows_resource


class SharedInformers(Informers):
    """What one identity may see of `shared`. Running those is their owner's business."""

    def __init__(self, shared: Informers, identity: Identity) -> None:
        self._shared = shared
        self._identity = identity

    def of(self, kind: Kind[V]) -> Informer[V]:
        """Raises Forbidden."""
        for verb in ("list", "watch"):
            request = ResourceRequest(verb, kind.group, kind.plural)
            if not any(allows_resource(rule, request) for rule in self._identity.rules):
                raise refusal(self._identity.user, request, Decision(False))
        return self._shared.of(kind)

    async def wait_synced(self) -> None:
        await self._shared.wait_synced()

    async def run(self) -> None:
        raise RuntimeError("these informers are run by whoever shares them")
