"""One claim and one volume, and the words for what becomes of them; what the tables about claims have in common."""

from functools import partial

from builders import Body, claim_body, claim_ref, volume_body
from mooring.api import keys

BY_CONTROLLER = {keys.BOUND_BY_CONTROLLER: keys.YES}

#: As `PaperWorld` puts it, when the controller has bound the two by itself.
BOUND = "Bound to volume-1 by controller"
USED = "Bound to claim-1 by controller"
NO_CLASS = "Normal FailedBinding"

#: Both of 1Gi and without class, unless a row says otherwise.
claim = partial(claim_body, size="1Gi", storage_class="")
volume = partial(volume_body, size="1Gi", storage_class="")


def mine(uid: str = "") -> Body:
    """The claimRef of a volume that is the claim's."""
    return claim_ref(name="claim-1", uid=uid)


def theirs() -> Body:
    return claim_ref(name="other", uid="other-uid")
