"""What a coordinator is told: where holds point to, and how patient it is."""

from typing import Final

import msgspec

from mooring.volumes.holds.verdicts import Patience

#: Where the claims live that nobody can have: a namespace that ordinary users must not be able to write to.
HOLD_NAMESPACE: Final = "kube-system"


class Settings(msgspec.Struct, frozen=True):
    hold_namespace: str = HOLD_NAMESPACE
    patience: Patience = Patience()
    #: Whether nobody elects it, so that it has to show by itself that it is there.
    alone: bool = False
