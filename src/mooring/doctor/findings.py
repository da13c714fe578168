"""Finding, Severity and Diagnosis: what `mooring doctor` reports, as `-o json` prints it; Check: a row of the table.

A code is stable: scripts compare it, and the page names it as a heading. Texts may be corrected at any time.
"""

import enum
from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

from mooring.api.kinds import Kind
from mooring.api.views.meta import ApiObject
from mooring.explain.cluster_view import ClusterView
from mooring.explain.results import ExplainStruct
from mooring.explain.text import counted_noun

#: Names listed in one finding; the rest is counted.
MAX_LISTED: Final = 5
#: The page of the documentation that has a heading per code.
PAGE: Final = "doctor"


class Severity(enum.StrEnum):
    """ERROR: pods or claims cannot proceed. WARNING: they will not in a foreseeable case. INFO: worth knowing."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"

    @property
    def rank(self) -> int:
        """0 for the gravest."""
        return list(Severity).index(self)


class Finding(ExplainStruct, frozen=True, omit_defaults=True, kw_only=True):
    severity: Severity
    code: str
    #: Kind and key of the object that is at fault.
    object: str
    problem: str
    fix: str
    #: Values of objects that the finding rests on.
    evidence: tuple[str, ...] = ()
    #: Number of pods, claims, volumes or nodes concerned.
    affected: int = 1

    @property
    def rank(self) -> tuple[int, int, str, str]:
        return self.severity.rank, -self.affected, self.code, self.object


class SkippedCheck(ExplainStruct, frozen=True):
    """A check without the objects it needs."""

    code: str
    reason: str


class Diagnosis(ExplainStruct, frozen=True):
    verdict: str
    #: Whether nothing was found of the severity that the caller asked about, or a graver one.
    ok: bool
    findings: tuple[Finding, ...] = ()
    skipped: tuple[SkippedCheck, ...] = ()


class Check(NamedTuple):
    """One row of the table of checks."""

    #: Codes of its findings.
    codes: tuple[str, ...]
    #: Kinds without which it would report what is not so.
    kinds: tuple[Kind[ApiObject], ...]
    find: Callable[[ClusterView], Iterator[Finding]]


def diagnosis(findings: Iterable[Finding], skipped: Iterable[SkippedCheck], *, fail_on: Severity) -> Diagnosis:
    """The findings, ranked. Not ok if one is as grave as `fail_on`."""
    ranked = tuple(sorted(findings, key=lambda one: one.rank))
    missed = tuple(skipped)
    grave = any(one.severity.rank <= fail_on.rank for one in ranked)
    return Diagnosis(_verdict(ranked, missed), not grave, ranked, missed)


def _verdict(findings: tuple[Finding, ...], skipped: tuple[SkippedCheck, ...]) -> str:
    without = f" ({counted_noun(len(skipped), 'check')} skipped)" if skipped else ""
    if not findings:
        return f"Nothing is wrong with storage and scheduling{without}."
    counts = [(sum(one.severity is severity for one in findings), severity) for severity in Severity]
    parts = [
        f"{number} info" if each is Severity.INFO else counted_noun(number, each) for number, each in counts if number
    ]
    return f"{', '.join(parts)}{without}."
