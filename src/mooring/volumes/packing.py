"""Whether volumes for several claims fit beside each other where a node is in more than one segment of free storage.

Asked by `provisioning` for such nodes only; where each class reports one figure for a node, sums settle it for all
nodes at once. Each claim may have its volume made in any segment of its class that takes one of its size. Classes that
share a pool share what is in a segment that both report; where only one of them tells a segment apart, its volumes
count against all that the other reports, since nobody knows how the two overlap. Pure.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from mooring.volumes.capacity import Room

#: Places tried in one decision before it is taken that there is no room for all: on a single node enough for five
#: claims in four segments, whatever the figures. The first tries put large volumes where most is left, so that it is
#: odd figures that take long.
LOOKS: Final = 2000


class Looks:
    """How many more places are tried, on all nodes together."""

    def __init__(self) -> None:
        self.left = LOOKS


class Wish(NamedTuple):
    """A volume to be made."""

    storage_class: str
    size: int


def fit_together(wishes: Sequence[Wish], rooms: Sequence[Room], looks: Looks | None = None) -> bool:
    """Whether there is a room for each wish in which it fits beside the others; `rooms` are those of one node. All
    wishes take from one pool. Never says yes in error, but no where finding out would take more looks."""
    return _Search(sorted(wishes, key=lambda wish: -wish.size), rooms, looks or Looks()).succeeds()


class _Search:
    def __init__(self, wishes: Sequence[Wish], rooms: Sequence[Room], looks: Looks) -> None:
        self._wishes = wishes
        self._looks = looks
        self._choices = [_choices(wish, rooms) for wish in wishes]
        self._segments = {
            storage_class: [room.segment for room in rooms if room.storage_class == storage_class]
            for storage_class in {wish.storage_class for wish in wishes}
        }
        self._chosen: list[Room] = []

    def succeeds(self) -> bool:
        place = len(self._chosen)
        if place == len(self._wishes):
            return True
        for room in self._choices[place]:
            if not self._looks.left:
                return False
            self._looks.left -= 1
            self._chosen.append(room)
            # What is too much by now gets no less: nothing further on needs a look.
            if self._bearable() and self.succeeds():
                return True
            self._chosen.pop()
        return False

    def _bearable(self) -> bool:
        return all(self._bears(room) for room in self._chosen)

    def _bears(self, room: Room) -> bool:
        known = self._segments[room.storage_class]
        load = [
            wish.size
            for wish, chosen in zip(self._wishes, self._chosen, strict=False)
            if chosen.segment == room.segment or chosen.segment not in known
        ]
        return sum(load) <= (room.left_for_one if len(load) == 1 else room.left)


def _choices(wish: Wish, rooms: Sequence[Room]) -> list[Room]:
    fitting = [room for room in rooms if room.storage_class == wish.storage_class and room.limit >= wish.size]
    return sorted(fitting, key=lambda room: -room.left)
