"""Who may take a claim's volume from it, and when: the server's own guard of the feature gate ClaimRollback.

Upstream's claims keep their volumes for good, and so do ours unless the gate is on, the claim says that no pod has used
it and is marked for rollback, whoever asks has the verb `unbind`, and no pod that uses the claim was let onto a node.
That the claim is clean and marked is checked by validation, which says in upstream's words what it refuses.

From then on the mark is not anybody's to change: whoever takes the claim from the volume relies on it.
"""

from typing import Final

import msgspec

from mooring.api.errors import invalid
from mooring.api.field_errors import forbidden
from mooring.api.kinds import POD
from mooring.api.views.claim import Claim
from mooring.server.admission.review import Review
from mooring.server.authorization.attributes import ResourceRequest
from mooring.server.body import meta, part
from mooring.server.validation.claim import IMMUTABLE, loses_volume
from mooring.volumes.clean_claims import ROLLBACK, is_near, may_unbind, unbound_from

#: Of RBAC rules on claims; no request has it.
UNBIND: Final = "unbind"


async def guard_mark(review: Review) -> None:
    """While a claim is being rolled back, only those who unbind claims may say that it no longer is."""
    before, after = (part(meta(obj), "annotations").get(ROLLBACK) for obj in (review.old or {}, review.new))
    if before is None or before == after or not review.environment.claim_rollback:
        return
    if unbound_from(msgspec.convert(review.old, Claim)):
        await _require_unbind(review)


async def _require_unbind(review: Review) -> None:
    kind = review.kind
    wanted = ResourceRequest(UNBIND, kind.group, kind.plural, "", review.namespace, meta(review.new)["name"])
    if not (await review.access.decide(review.user, wanted)).allowed:
        raise review.forbidden(f'user "{review.user.name}" may not {UNBIND} claims')


async def guard_unbinding(review: Review) -> None:
    if review.old is None or not loses_volume(review.new, review.old):
        return
    claim = msgspec.convert(review.old, Claim)
    if not may_unbind(claim):
        # SEEN: validation refuses it.
        return
    kind, name = review.kind, meta(review.new)["name"]
    if not review.environment.claim_rollback:
        raise invalid(kind.kind, name, [forbidden("spec", IMMUTABLE)], group=kind.group)
    await _require_unbind(review)
    for pod in await review.objects.views(POD, review.namespace):
        if is_near(pod) and claim.key in pod.claim_keys:
            raise review.forbidden(f'pod "{pod.name}" on node "{pod.spec.node_name}" may have used its volume')
