"""One claim and one volume, and their states, shared by the tables about claims."""

from functools import partial

from mooring.api import well_known
from support.builders import Body, claim_body, claim_ref, volume_body

BY_CONTROLLER = {well_known.BOUND_BY_CONTROLLER: well_known.ANNOTATION_SET}

#: State of the claim, as `FakeCluster` formats it, after the controller has bound both.
BOUND = "Bound to volume-1 by controller"
USED = "Bound to claim-1 by controller"
NO_CLASS = "Normal FailedBinding"

#: Both of 1Gi and without class, unless a row says otherwise.
claim = partial(claim_body, size="1Gi", storage_class="")
volume = partial(volume_body, size="1Gi", storage_class="")


def mine(uid: str = "") -> Body:
    """The claimRef of a volume that belongs to the claim."""
    return claim_ref(name="claim-1", uid=uid)


def theirs() -> Body:
    return claim_ref(name="other", uid="other-uid")
