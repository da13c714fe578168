"""What a stand-in is asked and what it answers: the signature of the volume topology design, as plain values.

A place is the set of label values that names one topology domain: a zone, a node, a zone with a rack in it.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple, Protocol

from mooring.api.views.node import Node
from mooring.api.views.storage import TopologyTerm

#: The label values that name a domain; which labels they belong to is the disk's business.
Place = frozenset[str]


class Domain(NamedTuple):
    """One topology domain, in the labels that its nodes carry."""

    labels: tuple[tuple[str, str], ...]

    @property
    def place(self) -> Place:
        return frozenset(value for _, value in self.labels)

    def __str__(self) -> str:
        return "/".join(value for _, value in self.labels)


class Cloud(NamedTuple):
    """What a provisioner knows of its surroundings."""

    nodes: Collection[Node]
    #: Why nothing can be made in a place right now; "" where it can.
    trouble_in: Callable[[Place], str]


class Made(NamedTuple):
    """A volume that can be used in any of these domains."""

    domains: tuple[Domain, ...]


class Refused(NamedTuple):
    why: str
    #: Whether another node might do: then the choice of node is given back to the scheduler.
    elsewhere: bool = False


class Provision(Protocol):
    def __call__(
        self,
        selected_node: Node | None,
        allowed_topologies: Sequence[TopologyTerm],
        *,
        parameters: Mapping[str, str],
        claim: str,
        cloud: Cloud,
    ) -> Made | Refused:
        """Where a volume is made for a claim of this name.

        Without a selected node the claim is bound immediately, and the provisioner chooses among what the class
        allows.
        """
        ...
