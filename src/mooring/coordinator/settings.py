"""What a coordinator is told: where holds point to, and how patient it is."""

import msgspec

from mooring.volumes.holds.verdicts import Patience
from mooring.volumes.plan import HOLD_NAMESPACE


class Settings(msgspec.Struct, frozen=True):
    hold_namespace: str = HOLD_NAMESPACE
    patience: Patience = Patience()
    #: Whether nobody elects it, so that it has to show by itself that it is there.
    alone: bool = False
