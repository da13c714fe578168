"""Pages of a list that changes while it is read: the token says after which id the next page begins.

So nothing is listed twice or skipped when volumes come and go between two pages, and a token never expires. Pure; used
by the service, whose driver always gives the whole list in the order of ids.
"""

from bisect import bisect_right
from collections.abc import Sequence
from typing import Final

from mooring.csi.contract import Code, DriverError, DriverVolume

AFTER: Final = "after:"


def page(volumes: Sequence[DriverVolume], *, token: str, most: int) -> tuple[Sequence[DriverVolume], str]:
    """The entries and the token of the page after them, empty on the last. `most` 0 means all that are left."""
    if most < 0:
        raise DriverError(Code.INVALID_ARGUMENT, f"max_entries is {most}")
    if token and not token.startswith(AFTER):
        raise DriverError(Code.ABORTED, f"{token!r} is not a token of this driver: start again without one")
    begin = bisect_right(volumes, token.removeprefix(AFTER), key=_id) if token else 0
    end = begin + most if most else len(volumes)
    entries = volumes[begin:end]
    return entries, AFTER + entries[-1].volume_id if end < len(volumes) else ""


def _id(volume: DriverVolume) -> str:
    return volume.volume_id
