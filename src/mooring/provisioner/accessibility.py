"""From where a new volume must be reachable: the accessibility requirements of a CreateVolume.

Pure. Facts are what CSINodes and Nodes say; the answer is external-provisioner's, order included:

    waits for a consumer, strict               the selected node's place, nothing else
    waits, not strict, no allowed topologies   all places there are, the selected node's first
    waits, not strict, allowed topologies      those, the first that holds the selected node first
    immediate, allowed topologies              those, rotated by the claim's name
    immediate, none allowed                    all places, rotated; nothing at all with --immediate-topology=false
"""

import random
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

from mooring.api.views.node import Node
from mooring.api.views.storage import CsiNode, TopologyTerm
from mooring.csi.contract import AccessibilityRequirements, Topology
from mooring.provisioner.attempt import Refusal, State
from mooring.provisioner.topology_terms import Term, flattened, offset, ordered, rotated, term, within


class Places(Protocol):
    """The nodes there are and what drivers say of them."""

    def node(self, name: str) -> Node | None: ...

    def nodes(self) -> Iterable[Node]: ...

    def csi_node(self, name: str) -> CsiNode | None: ...

    def csi_nodes(self) -> Iterable[CsiNode]: ...


class Wish(NamedTuple):
    """What is known about the volume before any place is chosen."""

    driver: str
    claim_name: str
    allowed: Sequence[TopologyTerm] = ()
    #: "" where nobody has selected one.
    selected_node: str = ""
    strict: bool = False
    immediate_topology: bool = True


class _Selected(NamedTuple):
    """The selected node's own place."""

    keys: tuple[str, ...]
    place: Term


def requirements(wish: Wish, places: Places, rng: random.Random) -> AccessibilityRequirements | Refusal | None:
    """None asks for nothing: the volume may be anywhere."""
    selected = _selected(wish, places) if wish.selected_node else None
    if isinstance(selected, Refusal):
        return selected
    allowed = flattened(wish.allowed)
    if selected is not None and wish.strict:
        return _strict(wish, selected, allowed)
    if allowed:
        requisite: Iterable[Term] | Refusal = allowed
    elif wish.allowed or (selected is None and not wish.immediate_topology):
        return None
    else:
        requisite = _everywhere(wish, places, selected, rng)
    if isinstance(requisite, Refusal):
        return requisite
    return _arranged(wish, ordered(requisite), selected)


def topology_keys(csi_node: CsiNode, driver: str) -> tuple[str, ...]:
    """The labels that tell a driver's places apart, as its CSINode says; none where it has no such driver."""
    return next((each.topology_keys for each in csi_node.spec.drivers or () if each.name == driver), ())


def place_of(labels: Mapping[str, str], keys: Iterable[str]) -> Term | None:
    """The place a node's labels describe; None where one of the keys is missing."""
    wanted = tuple(keys)
    return term({key: labels[key] for key in wanted}) if all(key in labels for key in wanted) else None


def _selected(wish: Wish, places: Places) -> _Selected | Refusal:
    name = wish.selected_node
    csi_node = places.csi_node(name)
    if csi_node is None:
        text = f'error getting CSINode for selected node "{name}": csinode.storage.k8s.io "{name}" not found'
        return _refused(text, State.RESCHEDULE)
    keys = topology_keys(csi_node, wish.driver)
    if not keys:
        return _refused(f"no topology key found for node {name}")
    node = places.node(name)
    if node is None:
        return _refused(f'error getting selected node "{name}": node "{name}" not found')
    place = place_of(node.metadata.labels, keys)
    if place is None:
        missing = ", ".join(sorted(key for key in keys if key not in node.metadata.labels))
        return _refused(f'selected node "{name}" lacks the topology labels {missing}')
    return _Selected(keys, place)


def _strict(wish: Wish, selected: _Selected, allowed: tuple[Term, ...]) -> AccessibilityRequirements | Refusal:
    if wish.allowed and not any(within(each, selected.place) for each in allowed):
        return _refused(
            f'topology {_shown(selected.place)} of selected node "{wish.selected_node}" is not in allowed topologies: '
            f"{_listed(allowed)}"
        )
    return _wire((selected.place,), (selected.place,))


def _everywhere(
    wish: Wish, places: Places, selected: _Selected | None, rng: random.Random
) -> tuple[Term, ...] | Refusal:
    if selected is not None:
        keys = selected.keys
    else:
        # By name first: what is drawn must not depend on the order in which nodes became known.
        known = sorted((each.name, topology_keys(each, wish.driver)) for each in places.csi_nodes())
        candidates = [keys for _, keys in known if keys]
        if not candidates:
            return _refused("no available topology found")
        keys = rng.choice(candidates)
    terms = (place_of(node.metadata.labels, keys) for node in places.nodes())
    found = tuple(place for place in terms if place is not None)
    if not found:
        return _refused(f"no node has all topology labels {', '.join(sorted(keys))}")
    return found


def _arranged(
    wish: Wish, requisite: tuple[Term, ...], selected: _Selected | None
) -> AccessibilityRequirements | Refusal:
    if selected is None:
        return _wire(requisite, rotated(requisite, offset(wish.claim_name)))
    first = next((i for i, each in enumerate(requisite) if within(each, selected.place)), None)
    if first is None:
        return _refused(
            f'topology {_shown(selected.place)} of selected node "{wish.selected_node}" is not in requisite: '
            f"{_listed(requisite)}"
        )
    return _wire(requisite, rotated(requisite, first))


def _wire(requisite: tuple[Term, ...], preferred: tuple[Term, ...]) -> AccessibilityRequirements:
    return AccessibilityRequirements(
        requisite=tuple(Topology(dict(each)) for each in requisite),
        preferred=tuple(Topology(dict(each)) for each in preferred),
    )


def _refused(text: str, state: State = State.NO_CHANGE) -> Refusal:
    return Refusal(state, f"error generating accessibility requirements: {text}")


def _shown(place: Term) -> str:
    return "{" + ", ".join(f"{key}: {value}" for key, value in place) + "}"


def _listed(terms: Iterable[Term]) -> str:
    return "[" + ", ".join(_shown(each) for each in terms) + "]"
