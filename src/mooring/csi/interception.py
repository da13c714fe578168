"""What may come between a CSI call and its answer, on either side: logs, injected failures.

An interceptor is given the name of the call, the request and a way to go on; it may look, wait, raise `DriverError`
before or after, but never changes what passes. The first in a sequence is the outermost.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, TypeVar

T = TypeVar("T")


class Interceptor(Protocol):
    async def __call__(self, call: str, request: object, proceed: Callable[[], Awaitable[T]]) -> T:
        """`call` is the method's name without its service, such as CreateVolume."""
        ...


async def through(
    interceptors: Sequence[Interceptor], call: str, request: object, proceed: Callable[[], Awaitable[T]]
) -> T:
    if not interceptors:
        return await proceed()
    first, *rest = interceptors
    return await first(call, request, lambda: through(rest, call, request, proceed))
