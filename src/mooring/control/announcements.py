"""What the processes of a control plane say about themselves, and where they do not fit together.

Pure. A process announces its version, its feature gates and the components it runs in the annotations of a Lease of
its own. Two processes do not fit when a gate that changes the behaviour of components of both is set differently, or
when their versions differ: each would do its part, and a claim might wait for ever in between.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from mooring.api.views.lease import Lease
from mooring.control.feature_gates import GATES, BadGates, FeatureGates, parse

#: On the Leases that announce.
LABEL: Final = "mooring.dev/announcement"
VERSION: Final = "mooring.dev/version"
GATES_SET: Final = "mooring.dev/feature-gates"
COMPONENTS: Final = "mooring.dev/components"

#: How long an announcement holds without being renewed, and how often it is.
LASTS_SECONDS: Final = 60
RENEW_SECONDS: Final = 20.0
#: How far clocks may be apart before it is worth a word: more than any that are kept in time are.
CLOCKS_APART: Final = 5.0


class Announcement(NamedTuple):
    process: str
    version: str
    gates: FeatureGates
    components: frozenset[str]

    @property
    def lease(self) -> str:
        return f"{self.process}-announcement"

    def body(self, *, now: str) -> dict[str, Any]:
        """The Lease, as it is created or, without its name, patched."""
        return {
            "metadata": {
                "name": self.lease,
                "labels": {LABEL: "true"},
                "annotations": {
                    VERSION: self.version,
                    GATES_SET: str(self.gates),
                    COMPONENTS: ",".join(sorted(self.components)),
                },
            },
            "spec": {"holderIdentity": self.process, "leaseDurationSeconds": LASTS_SECONDS, "renewTime": now},
        }


def read(lease: Lease) -> Announcement | None:
    """What a Lease announces; None for one that announces nothing, or what this version does not understand."""
    said: Mapping[str, str] = lease.metadata.annotations
    if LABEL not in lease.metadata.labels or VERSION not in said:
        return None
    try:
        gates = parse(said.get(GATES_SET, ""))
    except BadGates:
        # SEEN: a version with other gates; that the versions differ is said anyway.
        gates = parse("")
    components = frozenset(filter(None, said.get(COMPONENTS, "").split(",")))
    return Announcement(lease.spec.holder_identity, said[VERSION], gates, components)


def clock_skew(mine: str, theirs: str, *, renewed: float, between: tuple[float, float]) -> str:
    """In words, where the clock of `theirs` is far off ours; "" where it is not, or where that cannot be told.

    `renewed` is what it says when it wrote, which it did `between` two looks of ours.
    """
    earlier, later = between
    ahead = renewed - later if renewed > later else min(renewed - earlier, 0.0)
    if abs(ahead) <= CLOCKS_APART:
        return ""
    # Not by how much: that is another figure at every look, and each would be told as news.
    side = "ahead of" if ahead > 0 else "behind"
    return f"the clock of {theirs} is more than {CLOCKS_APART:g} s {side} that of {mine}: set them by a time server"


def skews(mine: Announcement, theirs: Announcement) -> Iterator[str]:
    """Where two processes do not fit together, in words."""
    if mine.version != theirs.version:
        yield f"{mine.process} is of version {mine.version}, {theirs.process} of version {theirs.version}"
    for gate in GATES:
        concerned = frozenset(gate.components)
        both = concerned & mine.components and concerned & theirs.components
        if both and mine.gates.enabled(gate) != theirs.gates.enabled(gate):
            here, there = (str(one.gates.enabled(gate)).lower() for one in (mine, theirs))
            yield f"{gate} is {here} in {mine.process} and {there} in {theirs.process}, and both have to agree on it"
