"""Version, feature gates and components of a process, published in the annotations of its own Lease; skew detection.

Pure. Processes of different versions, or with a different setting of a gate that components of both depend on, could
leave a claim waiting forever between them. Skew is reported between leaders; features are held back by every instance,
standbys included, since any of them may lead next. All instances of a process share its Lease, because RBAC cannot
permit names that are not known: each has an annotation of its own there, and the leader's is repeated as that of the
process, which is all that versions before these annotations read and write.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from mooring.api.views.core import Lease
from mooring.control.feature_gates import GATES, FeatureGates, Gate, parse_announced

#: Label of the Leases that publish a ComponentInfo.
LABEL: Final = "mooring.dev/announcement"
VERSION: Final = "mooring.dev/version"
GATES_SET: Final = "mooring.dev/feature-gates"
COMPONENTS: Final = "mooring.dev/components"
#: Of the names of these Leases, after the process.
_SUFFIX: Final = "-announcement"
#: Prefix of the annotation of one instance.
INSTANCE: Final = "instance.mooring.dev/"

#: How long an announcement counts after it was last observed to be renewed.
LEASE_DURATION_SECONDS: Final = 60
#: Renewals within that time.
_RENEWALS: Final = 3
#: Announcements of elected processes count for this many lease durations of theirs.
_LEASE_DURATIONS: Final = 4
#: Reported beyond this: more than synchronised clocks ever differ.
MAX_CLOCK_SKEW_SECONDS: Final = 5.0


class ComponentInfo(NamedTuple):
    process: str
    version: str
    gates: FeatureGates
    components: frozenset[str]

    @property
    def lease(self) -> str:
        return f"{self.process}{_SUFFIX}"

    def body(self, *, now: str, seconds: int = LEASE_DURATION_SECONDS, instance: str = "") -> dict[str, Any]:
        """The Lease as create body and as merge patch of the leader."""
        body = self.instance_body(instance, now=now, seconds=seconds) if instance else self._empty_body()
        body["metadata"]["annotations"] |= {
            VERSION: self.version,
            GATES_SET: str(self.gates),
            COMPONENTS: ",".join(sorted(self.components)),
        }
        spec = {"holderIdentity": self.process, "leaseDurationSeconds": seconds, "renewTime": now}
        return {**body, "spec": spec}

    def instance_body(self, instance: str, *, now: str, seconds: int) -> dict[str, Any]:
        """The same of an instance that does not lead."""
        components = ",".join(sorted(self.components))
        announced = _Announcement(self.version, str(self.gates), components, now, seconds)
        body = self._empty_body()
        body["metadata"]["annotations"] = {f"{INSTANCE}{instance}": msgspec.json.encode(announced).decode()}
        return body

    def _empty_body(self) -> dict[str, Any]:
        return {"metadata": {"name": self.lease, "labels": {LABEL: "true"}, "annotations": {}}}


class _Announcement(msgspec.Struct, rename="camel"):
    """Value of the annotation of an instance."""

    version: str
    feature_gates: str
    components: str
    renew_time: str
    lease_duration_seconds: int


class LiveInstance(NamedTuple):
    """One announcement: of an instance, or of the leader of a version that announces leaders only (without a name)."""

    info: ComponentInfo
    name: str
    renewed: str
    seconds: int

    @property
    def key(self) -> str:
        return f"{self.info.process}/{self.name}"


def read_component_info(lease: Lease) -> ComponentInfo | None:
    """The ComponentInfo of a Lease; None for any other Lease."""
    annotations: Mapping[str, str] = lease.metadata.annotations
    if LABEL not in lease.metadata.labels or VERSION not in annotations:
        return None
    gates = parse_announced(annotations.get(GATES_SET, ""))
    components = frozenset(filter(None, annotations.get(COMPONENTS, "").split(",")))
    return ComponentInfo(lease.spec.holder_identity, annotations[VERSION], gates, components)


def instances(lease: Lease) -> list[LiveInstance]:
    """All announcements on the Lease of a process; [] for any other Lease. Annotations that are not readable are of no
    instance: their writer is of no version that this one knows."""
    if LABEL not in lease.metadata.labels:
        return []
    found = []
    for name, value in lease.metadata.annotations.items():
        if name.startswith(INSTANCE):
            try:
                said = msgspec.json.decode(value, type=_Announcement)
            except msgspec.DecodeError:
                continue
            components = frozenset(filter(None, said.components.split(",")))
            process = lease.name.removesuffix(_SUFFIX)
            info = ComponentInfo(process, said.version, parse_announced(said.feature_gates), components)
            found.append(LiveInstance(info, name.removeprefix(INSTANCE), said.renew_time, said.lease_duration_seconds))
    leader, renewed = read_component_info(lease), lease.spec.renew_time or ""
    if leader is not None and renewed not in {each.renewed for each in found}:
        found.append(LiveInstance(leader, "", renewed, lease.spec.lease_duration_seconds or LEASE_DURATION_SECONDS))
    return found


def announcement_seconds(lease_duration: int | None) -> int:
    """How long the announcements of a process count, by the lease duration of its election."""
    return LEASE_DURATION_SECONDS if lease_duration is None else _LEASE_DURATIONS * lease_duration


def renew_seconds(seconds: int) -> float:
    """How often announcements that count this long are renewed."""
    return seconds / _RENEWALS


def lacking(mine: ComponentInfo, others: Iterable[ComponentInfo]) -> dict[Gate, str]:
    """Coordinated gates that this process has on, and an instance that takes part in them has not: that instance."""
    found: dict[Gate, str] = {}
    gates = [gate for gate in GATES if gate.coordinated and mine.gates.enabled(gate)]
    for other in others:
        for gate in gates:
            if not other.gates.enabled(gate) and not other.components.isdisjoint(gate.components):
                found.setdefault(gate, f"{other.process} of version {other.version}")
    return found


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
