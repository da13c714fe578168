"""Health checks behind `/livez` and `/readyz`, and debug documents: contracts between components and listeners.

Pure: checks run on request, and the response is a value. The texts are kube-apiserver's, because probes search for
them. They contain no failure reasons, because the endpoints need no authentication; reasons are returned for the log.
Listeners authorize access to debug documents; the component that fills a document must keep secrets out of it.
"""

import json
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

#: The parameters of a request, each once.
Query = Mapping[str, str]
#: Fast and read-only. Raises BadRequest for invalid parameters.
Inspect = Callable[[Query], bytes]
#: By path, such as `/debug/attempts`.
DebugDocuments = Mapping[str, Inspect]

#: None if healthy, else the reason of the failure. Fast, never raises.
Check = Callable[[], str | None]


class Acting(Protocol):
    """A component, as far as health is concerned."""

    @property
    def name(self) -> str: ...

    @property
    def ready(self) -> bool: ...


@dataclass(frozen=True)
class Answer:
    """Response of a health endpoint: 200 if healthy, else 500, with a text body."""

    healthy: bool
    text: str
    #: Reasons of the failed checks, not part of the response.
    failures: Mapping[str, str]


class Health:
    """The checks of one endpoint, `livez` or `readyz`, in the order they are shown; `ping` always succeeds."""

    def __init__(self, endpoint: str, checks: Mapping[str, Check]) -> None:
        self._endpoint = endpoint
        self._checks = {"ping": lambda: None, **checks}

    def answer(self, *, verbose: bool = False, exclude: Collection[str] = ()) -> Answer:
        """The result of all checks except the excluded ones; a failure is always verbose."""
        lines = []
        failures = {}
        for name, check in self._checks.items():
            if name in exclude:
                lines.append(f"[+]{name} excluded: ok")
            elif (reason := check()) is None:
                lines.append(f"[+]{name} ok")
            else:
                lines.append(f"[-]{name} failed: reason withheld")
                failures[name] = reason
        if unknown := sorted(set(exclude) - self._checks.keys()):
            names = ",".join(json.dumps(name, ensure_ascii=False) for name in unknown)
            lines.append(f"warn: some health checks cannot be excluded: no matches for {names}")
        lines.append(f"{self._endpoint} check {'failed' if failures else 'passed'}")
        text = "\n".join(lines) + "\n" if verbose or failures else "ok"
        return Answer(not failures, text, failures)

    def answer_one(self, name: str) -> Answer | None:
        """The result of one check, with the reason of a failure; None for an unknown check."""
        check = self._checks.get(name)
        if check is None:
            return None
        if (reason := check()) is None:
            return Answer(True, "ok", {})
        return Answer(False, f"internal server error: {reason}\n", {name: reason})


def readiness(components: Iterable[Acting], *, leads: Callable[[], bool] = lambda: True) -> dict[str, Check]:
    """One check per component of a process: whether it is active. A standby of leader election is ready although it is
    not active, as in Kubernetes: a rollout that waited for a standby to become active would never end."""

    def check(component: Acting) -> Check:
        return lambda: "not ready" if leads() and not component.ready else None

    checks: dict[str, Check] = {}
    for component in components:
        if component.name in checks:
            raise ValueError(f"two components have the name {component.name}; readiness checks need different names")
        checks[component.name] = check(component)
    return checks
