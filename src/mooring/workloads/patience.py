"""How long to leave an ended pod before it is replaced, so that one that ends at once is not replaced at once for ever.

Pure, with the time as an argument. The first replacement is immediate; after that the wait is one second, doubling to
fifteen minutes, per pod name. A name that has been calm for half an hour starts over.
"""

from dataclasses import dataclass
from typing import Final

#: What upstream's DaemonSet controller grants failed pods; its StatefulSet controller grants nothing.
FIRST_WAIT: Final = 1.0
LONGEST_WAIT: Final = 900.0
CALM: Final = 2 * LONGEST_WAIT
#: Doublings after which the longest wait is reached; keeps the power small.
_DOUBLINGS: Final = 10


@dataclass(slots=True)
class _Record:
    uid: str
    ends: int
    #: When the pod may be replaced.
    due: float


class Patience:
    def __init__(self) -> None:
        self._records: dict[str, _Record] = {}

    def wait(self, key: str, uid: str, *, now: float) -> float:
        """Seconds until the pod that ended may be replaced; 0 when it may be now. Asking again changes nothing."""
        record = self._records.get(key)
        if record is None or now - record.due > CALM:
            self._forget_calm(now)
            record = self._records[key] = _Record(uid, ends=1, due=now)
        elif record.uid != uid:
            record.uid = uid
            record.due = now + min(FIRST_WAIT * 2 ** min(record.ends - 1, _DOUBLINGS), LONGEST_WAIT)
            record.ends += 1
        return max(record.due - now, 0.0)

    def _forget_calm(self, now: float) -> None:
        self._records = {key: record for key, record in self._records.items() if now - record.due <= CALM}
