"""The PodScheduled condition of pods that were not placed: written when it says something new, never waited for.

The scheduling loop notes what it found and goes on. A few workers write it; of several notes about one pod only the
last is written, and a note about a pod that has moved on is dropped.
"""

from typing import Any, Final, NamedTuple

import structlog
from structlog.typing import FilteringBoundLogger

from mooring.api.errors import Invalid, NotFound
from mooring.api.kinds import POD
from mooring.api.patches.contract import StrategicPatch
from mooring.api.timestamps import to_time
from mooring.api.views.meta import Condition
from mooring.api.views.pod import Pod
from mooring.control.component import Context
from mooring.control.worker import work

log: FilteringBoundLogger = structlog.get_logger(__name__)

POD_SCHEDULED: Final = "PodScheduled"
#: No node would take the pod.
UNSCHEDULABLE: Final = "Unschedulable"
#: A node would, but placing it there failed.
SCHEDULER_ERROR: Final = "SchedulerError"

#: Enough to keep up with a herd of pending pods without crowding out the binder's requests.
WORKERS: Final = 4


class _Note(NamedTuple):
    uid: str
    reason: str
    message: str
    #: The node it is expected on; "" takes an earlier one back, None leaves it as it is.
    nominated: str | None


class PodConditions:
    """What pending pods are told about themselves."""

    def __init__(self, context: Context) -> None:
        self._client = context.client
        self._clock = context.clock
        self._pods = context.informers.of(POD)
        self._notes: dict[str, _Note] = {}
        self._queue = context.work_queue("pod_conditions")

    def tell(self, pod: Pod, reason: str, message: str, *, nominated: str | None = None) -> None:
        """Have the condition say so, unless it does already.

        `nominated` is the node that it is expected on; "" takes that back, None leaves it as it is.
        """
        self._notes[pod.key] = _Note(pod.uid, reason, message, nominated)
        self._queue.add(pod.key)

    async def run(self) -> None:
        await work(self._queue, self._write, workers=WORKERS, name="pod conditions")

    async def _write(self, key: str) -> None:
        note = self._notes.get(key)
        pod = self._pods.get(key)
        if note is None:
            return
        if pod is not None and pod.uid == note.uid and not pod.spec.node_name and _says_less(pod, note):
            patch = StrategicPatch(_body(pod, note, self._clock.now()))
            try:
                await self._client.patch(POD, pod.name, patch, namespace=pod.namespace, subresource="status")
            except (NotFound, Invalid) as error:
                # The pod is gone. If another one has its name, that is a Conflict, until the informer shows it.
                log.info("pod condition dropped", pod=key, why=error.message)
        if self._notes.get(key) is note:
            del self._notes[key]


def _current(pod: Pod) -> Condition | None:
    return next((one for one in pod.status.conditions if one.type == POD_SCHEDULED), None)


def _says_less(pod: Pod, note: _Note) -> bool:
    now = _current(pod)
    if note.nominated is not None and note.nominated != pod.status.nominated_node_name:
        return True
    return now is None or (now.status, now.reason, now.message) != ("False", note.reason, note.message)


def _body(pod: Pod, note: _Note, now: float) -> dict[str, Any]:
    condition: dict[str, Any] = {
        "type": POD_SCHEDULED,
        "status": "False",
        "reason": note.reason,
        "message": note.message,
    }
    before = _current(pod)
    if before is None or before.status != "False":
        condition["lastTransitionTime"] = to_time(now)
    if pod.metadata.generation:
        condition["observedGeneration"] = pod.metadata.generation
    # The uid is a precondition: a pod made anew under this name has not been tried yet.
    status: dict[str, Any] = {"conditions": [condition]}
    if note.nominated is not None:
        status["nominatedNodeName"] = note.nominated or None
    return {"metadata": {"uid": note.uid}, "status": status}
