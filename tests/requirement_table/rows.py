"""The rows: id, levels at which it must be proved, and what it is about in a few words.

Levels: u unit or property test of the pure core, s seeded run in the simulated world, e end to end on the
embedded cluster through what a user sees, k on real Kubernetes components, m model checking, b a figure under
`bench/`. Ids are stable; tests name them with `@pytest.mark.req("T12")`, clause by clause with
`@pytest.mark.req("T16.claimref-cleared")`.
"""

from typing import Final, NamedTuple


class Row(NamedTuple):
    id: str
    levels: str
    title: str


ROWS: Final = (
    Row("T1", "ue", "volume node affinity"),
    Row("T2", "e", "local, zonal and multi-label volumes"),
    Row("T3", "ue", "volumeBindingMode"),
    Row("T4", "ue", "allowedTopologies"),
    Row("T5", "e", "immediate binding"),
    Row("T6", "ue", "delayed binding waits for the scheduler"),
    Row("T7", "ue", "bound claims limit nodes"),
    Row("T8", "e", "node agent verifies volume affinity"),
    Row("T9", "u", "volume binding predicate"),
    Row("T10", "u", "exact assignment"),
    Row("T11", "u", "state of a cycle"),
    Row("T12", "ue", "volume score"),
    Row("T13", "us", "assume"),
    Row("T14", "u", "assume cache"),
    Row("T15", "se", "asynchronous bind"),
    Row("T16", "s", "bind failures"),
    Row("T17", "se", "provisioner failure frees the node choice"),
    Row("T18", "ue", "provisioning gets node and topologies"),
    Row("T19", "e", "zonal example end to end"),
    Row("T20", "e", "fallback to provisioning"),
    Row("T21", "ue", "other constraints together with volumes"),
    Row("T22", "ue", "volume-aware preemption"),
    Row("T23", "ue", "attach limits inside the decision"),
    Row("T24", "u", "volume zone predicate"),
    Row("T25", "u", "ReadWriteOncePod and disk conflicts"),
    Row("T26", "us", "wake-ups"),
    Row("T27", "u", "predicate caching"),
    Row("T28", "b", "pods without volumes pay nothing"),
    Row("T29", "ub", "no O(N·V)"),
    Row("T30", "u", "volumes without affinity are matched once"),
    Row("T31", "u", "feature gates"),
    Row("T32", "ek", "least rights"),
    Row("T33", "uk", "library and extender"),
    Row("T34", "e", "preset nodeName"),
    Row("T35", "se", "several instances"),
    Row("T36", "ue", "zonal upgrade"),
    Row("T37", "uek", "zone parameters"),
    Row("T38", "sek", "all or nothing"),
    Row("T39", "use", "clean and dirty claims"),
    Row("T40", "se", "claim rollback"),
    Row("T41", "se", "recovery from rejection by a node"),
    Row("T42", "us", "PV controller complete"),
    Row("T43", "se", "end-to-end list of the topology design"),
    Row("T44", "u", "unit list of the topology design"),
    Row("T45", "e", "problem examples"),
    Row("T46", "ue", "reasons for waiting are told apart"),
    Row("T47", "s", "re-check before the pod is bound"),
    Row("C1", "ue", "capacity objects"),
    Row("C2", "ue", "capacity per driver"),
    Row("C3", "u", "capacity predicate"),
    Row("C4", "u", "kinds of volumes and segments"),
    Row("C5", "e", "publisher per node"),
    Row("C6", "ue", "central publisher"),
    Row("C7", "u", "class parameters"),
    Row("C8", "us", "lifecycle of capacity objects"),
    Row("C9", "se", "when capacity is refreshed"),
    Row("C10", "u", "driver answers"),
    Row("C11", "ek", "hostpath driver"),
    Row("C12", "e", "what a pending pod says"),
    Row("C13", "e", "capacity user stories"),
    Row("C14", "e", "switching the feature"),
    Row("C15", "ue", "capacity as a preference"),
    Row("C16", "use", "no over-commitment"),
    Row("C17", "e", "staleness"),
    Row("C18", "e", "metrics"),
    Row("C19", "s", "failure modes"),
    Row("C20", "ue", "would a new node help"),
    Row("R1", "sek", "never stuck on half of the volumes"),
    Row("R2", "ms", "used volumes are never removed"),
    Row("R3", "e", "marks for people"),
    Row("R4", "se", "no leaked volumes"),
    Row("R5", "e", "used volumes persist"),
    Row("R6", "e", "rollback is visible"),
    Row("R7", "ek", "other provisioners keep working"),
)

BY_ID: Final = {row.id: row for row in ROWS}
