"""How an extender is run: in which of its two modes, and with how much patience."""

import enum
from dataclasses import dataclass
from typing import Final

from mooring.api import keys
from mooring.scheduler.binder import BIND_TIMEOUT
from mooring.volumes.plan import HOLD_NAMESPACE
from mooring.volumes.scoring import CapacityPolicy

#: Seconds without a call after which it is odd that pods get their nodes all the same. kube-scheduler retries what
#: waits every five minutes at the latest.
CALLED_WITHIN: Final = 300.0


class Mode(enum.Enum):
    #: kube-scheduler binds volumes and pods itself; we only say which nodes will do, and which are best.
    FILTER = "filter"
    #: kube-scheduler runs without VolumeBinding; we bind the volumes, and then the pod.
    BIND = "bind"


@dataclass(frozen=True)
class Settings:
    mode: Mode = Mode.FILTER
    #: The scheduler names whose pods we should be asked about.
    scheduler_names: frozenset[str] = frozenset({keys.DEFAULT_SCHEDULER})
    #: Seconds a pod may wait for its volumes within one call of bind.
    bind_timeout: float = BIND_TIMEOUT
    called_within: float = CALLED_WITHIN
    #: Whether an extender that nobody calls counts as not ready. Behind a Service it would then never be called.
    ready_only_when_called: bool = False
    #: The coordinator's.
    hold_namespace: str = HOLD_NAMESPACE
    policy: CapacityPolicy = CapacityPolicy.SPREAD
