"""What a scheduler remembers of its attempts, asked for over HTTP by a command: the reader of `/debug/attempts`.

The answer may be missing, since most schedulers of the world are not ours: why is then one sentence, never a failure.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from mooring.api.errors import ApiError, NotFound
from mooring.cli.cluster_source import UnusableSource
from mooring.cli.event_loop import run
from mooring.client.access import Access
from mooring.client.contract import Unreachable
from mooring.client.transport import Transport
from mooring.client.wire import Request
from mooring.clock import Clock, SystemClock
from mooring.scheduler.attempt_log import PATH, Attempts

#: Seconds to wait for an answer: a story without it is better than a long wait.
TIMEOUT: Final = 5.0

_MISSING: Final = "what the scheduler remembers is not told"


class Memory(NamedTuple):
    """What was kept of some pods; `missing` says why it is not known."""

    kept: tuple[Attempts, ...] = ()
    missing: str = ""


NOTHING: Final = Memory()


def at(url: str, pods: Sequence[str], *, component: str) -> Memory:
    """Of the scheduler whose health and metrics are at this address. Raises UnusableSource."""
    if not url.startswith(("http://", "https://")):
        raise UnusableSource(f"--scheduler-url {url!r} is no address: write it like http://127.0.0.1:10251.")
    try:
        return _asked(Access(url.rstrip("/")), pods, component, f"there is no {PATH} at {url}")
    except Unreachable:
        return Memory(missing=f"{_MISSING}: no scheduler answers at {url}")


def beside(access: Access, pods: Sequence[str], *, component: str) -> Memory:
    """Of the scheduler in the process of the API server, as `mooring up` has it."""
    absent = "it is not in the API server's process; --scheduler-url says where mooring scheduler answers"
    try:
        return _asked(access, pods, component, absent)
    except Unreachable as error:
        return Memory(missing=f"{_MISSING}: {error}")


def _asked(access: Access, pods: Sequence[str], component: str, absent: str) -> Memory:
    """`absent` says why it may not be there. Raises Unreachable."""
    try:
        return Memory(run(_ask(access, pods, component, SystemClock())))
    except ApiError as error:
        # Whoever answers without a Status, as components' ports do, is known by the code.
        return Memory(missing=f"{_MISSING}: {absent if error.code == NotFound.code else error.message}")
    except msgspec.DecodeError as error:
        return Memory(missing=f"{_MISSING}: the answer cannot be read: {error}")


async def _ask(access: Access, pods: Sequence[str], component: str, clock: Clock) -> tuple[Attempts, ...]:
    transport = Transport(access, component=component, clock=clock, timeout=TIMEOUT, in_flight=1)
    try:
        answers = [await transport.call(Request("GET", PATH, {"pod": pod})) for pod in pods]
    finally:
        await transport.close()
    return tuple(msgspec.json.decode(answer, type=Attempts) for answer in answers)
