"""Version, feature gates and components of a process, published in the annotations of its own Lease; skew detection.

Pure. Processes of different versions, or with a different setting of a gate that components of both depend on, could
leave a claim waiting forever between them.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from mooring.api.views.core import Lease
from mooring.control.feature_gates import GATES, BadGates, FeatureGates, parse_feature_gates

#: Label of the Leases that publish a ComponentInfo.
LABEL: Final = "mooring.dev/announcement"
VERSION: Final = "mooring.dev/version"
GATES_SET: Final = "mooring.dev/feature-gates"
COMPONENTS: Final = "mooring.dev/components"

#: Duration and renewal interval of these Leases.
LEASE_DURATION_SECONDS: Final = 60
RENEW_SECONDS: Final = 20.0
#: Reported beyond this: more than synchronised clocks ever differ.
MAX_CLOCK_SKEW_SECONDS: Final = 5.0


class ComponentInfo(NamedTuple):
    process: str
    version: str
    gates: FeatureGates
    components: frozenset[str]

    @property
    def lease(self) -> str:
        return f"{self.process}-announcement"

    def body(self, *, now: str) -> dict[str, Any]:
        """The Lease as create body and as merge patch."""
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
            "spec": {"holderIdentity": self.process, "leaseDurationSeconds": LEASE_DURATION_SECONDS, "renewTime": now},
        }


def read_component_info(lease: Lease) -> ComponentInfo | None:
    """The ComponentInfo of a Lease; None for any other Lease."""
    annotations: Mapping[str, str] = lease.metadata.annotations
    if LABEL not in lease.metadata.labels or VERSION not in annotations:
        return None
    try:
        gates = parse_feature_gates(annotations.get(GATES_SET, ""))
    except BadGates:
        # A version with other gates: the difference of versions is reported anyway.
        gates = parse_feature_gates("")
    components = frozenset(filter(None, annotations.get(COMPONENTS, "").split(",")))
    return ComponentInfo(lease.spec.holder_identity, annotations[VERSION], gates, components)


def clock_skew(mine: str, theirs: str, *, renewed: float, between: tuple[float, float]) -> str:
    """Message if the clock of `theirs` differs by more than MAX_CLOCK_SKEW_SECONDS, else "". `renewed` is the timestamp
    it wrote at a moment `between` two of our clock readings."""
    earlier, later = between
    ahead = renewed - later if renewed > later else min(renewed - earlier, 0.0)
    if abs(ahead) <= MAX_CLOCK_SKEW_SECONDS:
        return ""
    # Without the exact difference: it changes with every comparison, and each text would be reported as a new problem.
    side = "ahead of" if ahead > 0 else "behind"
    limit = f"{MAX_CLOCK_SKEW_SECONDS:g} s"
    return f"the clock of {theirs} is more than {limit} {side} that of {mine}: set them by a time server"


def skews(mine: ComponentInfo, theirs: ComponentInfo) -> Iterator[str]:
    """Messages about differences of version and of shared feature gates."""
    if mine.version != theirs.version:
        yield f"{mine.process} is of version {mine.version}, {theirs.process} of version {theirs.version}"
    for gate in GATES:
        concerned = frozenset(gate.components)
        both = concerned & mine.components and concerned & theirs.components
        if both and mine.gates.enabled(gate) != theirs.gates.enabled(gate):
            here, there = (str(one.gates.enabled(gate)).lower() for one in (mine, theirs))
            yield f"{gate} is {here} in {mine.process} and {there} in {theirs.process}, and both have to agree on it"
