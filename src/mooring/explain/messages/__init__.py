"""The message table: what components report about pods and claims, the meaning and the action.

`find` splits a message into rows, in the wording of any release. Rows name no objects of a cluster.
"""

from typing import Final, NamedTuple

from mooring.explain.messages.claims import CLAIMS, PROVISIONING
from mooring.explain.messages.pod_groups import POD_GROUPS
from mooring.explain.messages.scheduling import FIRST_MINUTES, KUBELET, NODES
from mooring.explain.messages.volumes import BINDING, VOLUMES
from mooring.explain.results import Message

#: By who says it, under the heading it has on the page.
GROUPS: Final[tuple[tuple[str, tuple[Message, ...]], ...]] = (
    ("Pending pods: claims and volumes", VOLUMES),
    ("Pending pods: nodes", NODES),
    ("Pending pods: groups", POD_GROUPS),
    ("Pending pods: a node is selected", BINDING),
    ("Claims and volumes", CLAIMS),
    ("Provisioning of volumes", PROVISIONING),
    ("Pods on nodes", KUBELET),
    ("First minutes with an embedded cluster", FIRST_MINUTES),
)
MESSAGES: Final = tuple(message for _, rows in GROUPS for message in rows)

#: The page of the documentation where the table is printed.
PAGE: Final = "troubleshooting"


class _Hit(NamedTuple):
    start: int
    end: int
    message: Message
    #: How much of it the row spells out.
    spelled: int

    def hides(self, other: "_Hit") -> bool:
        """Whether the other is only a part of this one, or the same less exactly."""
        if not (self.start <= other.start and other.end <= self.end):
            return False
        return (self.end - self.start, self.spelled) > (other.end - other.start, other.spelled)


def find(text: str) -> tuple[Message, ...]:
    """The rows that a message contains, in the order it does; a text within another's text does not count."""
    hits = [
        _Hit(hit.start(), hit.end(), message, len(pattern.pattern))
        for message in MESSAGES
        for pattern in message.patterns
        for hit in pattern.finditer(text)
    ]
    shown = [hit for hit in hits if not any(other.hides(hit) for other in hits)]
    return tuple(dict.fromkeys(hit.message for hit in sorted(shown, key=lambda hit: hit.start)))


def remedy(text: str) -> str:
    """The action for a message; "" for an unknown one."""
    found = find(text)
    return found[-1].action if found else ""
