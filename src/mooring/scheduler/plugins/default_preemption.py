"""DefaultPreemption: where no node has room for a pod, less important pods may have to go. See `preemption`."""

from typing import ClassVar

from mooring.scheduler.contract import Hint
from mooring.scheduler.preemption import Attempt, Preemption, preempt


class DefaultPreemption:
    name: ClassVar[str] = "DefaultPreemption"
    #: It rejects nobody: what the pod waits for is what the filters wait for.
    wakes_on: ClassVar[tuple[Hint, ...]] = ()

    def preempt(self, attempt: Attempt) -> Preemption | str:
        """Who should go from where, or why that would not help."""
        return preempt(attempt)
