"""Workers: take keys from a `WorkQueue`, reconcile them, and try again what failed. Loops: repeat a step for ever.

A refusal of the server and a missing answer are part of the day: the key is retried with growing pauses. Any other
exception is a bug. It is logged as an error with its traceback and the key is retried all the same, because one
poisoned object must stop neither the others nor the process, and because what is wrong may pass with the object's
next change. Bugs are therefore found in the log, where every such line is named `reconcile failed with a bug`, and in
the metric `mooring_internal_errors_total`. Nothing that one object or one answer brings about ends a component.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

import structlog
from structlog.typing import FilteringBoundLogger

from mooring.api.errors import ApiError, Conflict
from mooring.client.contract import Unreachable
from mooring.control.invariants import InvariantViolated
from mooring.control.queue import K, WorkQueue

log: FilteringBoundLogger = structlog.get_logger(__name__)

#: What is logged when a reconcile function or a loop raises what it should not.
BUG: Final = "reconcile failed with a bug"


async def work(queue: WorkQueue[K], reconcile: Callable[[K], Awaitable[None]], *, workers: int, name: str) -> None:
    """Reconcile keys until cancelled, at most `workers` at once; `name` is whose queue it is, for the log."""
    if workers < 1:
        raise ValueError(f"{name} has no workers: nothing would ever be done")
    async with asyncio.TaskGroup() as group:
        for number in range(workers):
            group.create_task(_keep_working(queue, reconcile, log.bind(queue=name)), name=f"{name} {number}")


async def repeat(
    step: Callable[[], Awaitable[None]],
    pause: Callable[[], Awaitable[object]],
    *,
    name: str,
    at_once: bool = True,
) -> None:
    """Take a step, pause, and so on until cancelled: for what a component does now and then.

    What a step raises is logged as for a worker, and the next one comes after the usual pause. Without `at_once` it
    begins with a pause.
    """
    if not at_once:
        await pause()
    while True:
        try:
            await step()
        except (ApiError, Unreachable) as error:
            log.warning("trying again", loop=name, why=str(error))
        except Exception:
            log.exception(BUG, loop=name)
        await pause()


async def _keep_working(
    queue: WorkQueue[K], reconcile: Callable[[K], Awaitable[None]], log: FilteringBoundLogger
) -> None:
    while True:
        key = await queue.next()
        try:
            await _attempt(queue, key, reconcile, log)
        finally:
            queue.done(key)


async def _attempt(
    queue: WorkQueue[K], key: K, reconcile: Callable[[K], Awaitable[None]], log: FilteringBoundLogger
) -> None:
    try:
        await reconcile(key)
    except (ApiError, Unreachable) as error:
        # After a conflict somebody else was faster; with fresh facts the next try will most likely do.
        say = log.info if isinstance(error, Conflict) else log.warning
        say("trying again", key=str(key), why=str(error), failures=queue.failures(key))
    except InvariantViolated as violation:
        # Logged and counted already. The object is left alone until something about it changes.
        log.error("object set aside", key=str(key), why=str(violation))
        queue.forget(key)
        return
    except Exception:
        log.exception(BUG, key=str(key), failures=queue.failures(key))
        queue.failed()
    else:
        queue.forget(key)
        return
    queue.retry(key)
