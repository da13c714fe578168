"""Since when a pod can be relied on: ready is a word, available is a word that has held for a while.

Pure. Readiness counts from the transition time of the Ready condition, in whole seconds.
"""

import math

from mooring.api import timestamps
from mooring.api.views.pod import Pod


def is_ready(pod: Pod) -> bool:
    return pod.status.phase == "Running" and pod.ready


def wait(pod: Pod, min_ready_seconds: int, *, now: float) -> float:
    """Seconds until the pod is available: 0 if it is, infinite if it is not even ready."""
    ready = next((c for c in pod.status.conditions if c.type == "Ready" and c.status == "True"), None)
    if ready is None or pod.status.phase != "Running":
        return math.inf
    if min_ready_seconds == 0:
        return 0.0
    if not ready.last_transition_time:
        return float(min_ready_seconds)
    return max(timestamps.from_time(ready.last_transition_time) + min_ready_seconds - now, 0.0)
