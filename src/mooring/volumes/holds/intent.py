"""What a provisioner is about to do for a claim, written down before it does it.

One record per claim uid, also for volumes that are not held (attempt 0), whose records are written once an answer is
missing and go when there is one. Attempts are numbered and never start again while the claim lives, so that whatever
an old leader still has under way can be told from what is going on now. Every change is a compare-and-swap:

    (none) ──► CREATING 1 ──► CREATED 1 ──► ROLLED_BACK 1 ──► CREATING 2 ──► …
                    └──► FAILED 1 ──► CREATING 2 ──► …
"""

import enum
from collections.abc import Mapping

import msgspec


class Phase(enum.Enum):
    #: CreateVolume was or is about to be called: a volume may exist that nothing else names.
    CREATING = "Creating"
    #: The volume is in a PersistentVolume.
    CREATED = "Created"
    #: The driver has said that there is no volume.
    FAILED = "Failed"
    #: The volume was deleted again.
    ROLLED_BACK = "RolledBack"


#: Nothing of the attempt is left: another may begin.
CLOSED = frozenset({Phase.FAILED, Phase.ROLLED_BACK})


class Intent(msgspec.Struct, frozen=True):
    #: Numbered from 1 where volumes are held; 0 is an attempt whose volume goes to its claim as soon as it is there.
    attempt: int
    node: str
    phase: Phase

    @property
    def held(self) -> bool:
        return self.attempt > 0

    def now(self, phase: Phase) -> "Intent":
        return msgspec.structs.replace(self, phase=phase)

    @property
    def closed(self) -> bool:
        return self.phase in CLOSED

    def vouches_for(self, attempt: int) -> bool:
        """Whether a volume of this attempt is there for certain: it was created, and not given up since."""
        return self.attempt == attempt and self.phase is Phase.CREATED


class MalformedIntent(ValueError):
    """Somebody else wrote into the record."""


def to_data(intent: Intent) -> dict[str, str]:
    """As the record's ConfigMap holds it. Attempts that are not held carry no number: a process of an earlier version
    would take the record for one of a held volume."""
    numbered = {"attempt": str(intent.attempt)} if intent.held else {}
    return numbered | {"node": intent.node, "phase": intent.phase.value}


def from_data(data: Mapping[str, str]) -> Intent:
    """The one place that tells records of held attempts from others. Raises MalformedIntent."""
    try:
        attempt = int(data["attempt"]) if "attempt" in data else 0
        if attempt < 0 or ("attempt" in data and not attempt):
            raise ValueError(f"attempt {attempt}")
        return Intent(attempt, data["node"], Phase(data["phase"]))
    except (KeyError, ValueError) as problem:
        raise MalformedIntent(f"not the record of an attempt: {problem}") from problem
