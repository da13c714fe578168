"""What came of a question: plain values, as `-o json` prints them. Empty parts are left out."""

import msgspec


class Part(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Options all parts share."""


class ClaimOutcome(Part, frozen=True):
    """The volume a claim of a placed pod has; `made` says that it was made for it during the simulation."""

    claim: str
    volume: str
    storage_class: str = ""
    size: str = ""
    made: bool = False


class Placement(Part, frozen=True):
    """A pod that found a node; `before` is where a pod of its name was, if there was one."""

    pod: str
    node: str
    before: str = ""
    claims: tuple[ClaimOutcome, ...] = ()


class Pending(Part, frozen=True):
    """A pod without a node, or with one on which it cannot start, and why."""

    pod: str
    reason: str
    #: Where it is or was, as far as that is anywhere.
    node: str = ""
    #: Whether it waited before anything was changed.
    already: bool = False


class Shortfall(Part, frozen=True):
    """A workload with fewer pods than it wants, because those to come are not even made."""

    workload: str
    wanted: int
    pods: int
    reason: str = ""


class Lost(Part, frozen=True):
    """A pod that is gone and that nobody makes anew."""

    pod: str
    node: str
    reason: str


class Blocked(Part, frozen=True):
    """A pod that a drain does not get off its node."""

    pod: str
    node: str
    reason: str


class Segment(Part, frozen=True):
    """What a capacity object says before and after; None where it was not there. Amounts as Kubernetes writes them."""

    name: str
    storage_class: str
    segment: dict[str, str]
    nodes: int
    before: str | None = None
    after: str | None = None


class Difference(Part, frozen=True):
    """What is not as it was: pods by name, where they went from and to, and everything else that came or went."""

    nodes_added: tuple[str, ...] = ()
    nodes_removed: tuple[str, ...] = ()
    nodes_drained: tuple[str, ...] = ()
    pods_added: tuple[str, ...] = ()
    pods_moved: tuple[str, ...] = ()
    pods_removed: tuple[str, ...] = ()
    claims_bound: tuple[str, ...] = ()
    volumes_made: tuple[str, ...] = ()
    volumes_removed: tuple[str, ...] = ()


class Explanation(Part, frozen=True):
    """Why one pod of several alike stays pending, as `mooring explain` says it."""

    pod: str
    alike: int
    verdict: str
    paragraphs: tuple[str, ...] = ()
    #: What would help, the nearest first.
    helps: tuple[str, ...] = ()


class Outcome(Part, frozen=True, omit_defaults=False):
    verdict: str
    ok: bool
    #: Simulated seconds until nothing happened any more.
    seconds: float
    placements: tuple[Placement, ...] = ()
    pending: tuple[Pending, ...] = ()
    shortfalls: tuple[Shortfall, ...] = ()
    blocked: tuple[Blocked, ...] = ()
    lost: tuple[Lost, ...] = ()
    capacity: tuple[Segment, ...] = ()
    difference: Difference = Difference()
    explanations: tuple[Explanation, ...] = ()
    notes: tuple[str, ...] = ()
