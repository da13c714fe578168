"""Health checks by name, and what `/livez` and `/readyz` answer about them.

Shared by the API server and by every component's process. Pure: checks are asked when somebody asks, and the answer is
a value that whoever serves it puts on the wire. Texts are upstream's, since people and probes search for them. Reasons
of failures are not in the text, because the endpoint is open to everybody; they come beside it, for the log.
"""

import json
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

#: None if all is well, otherwise why not. Quick, and never raises.
Check = Callable[[], str | None]


class Acting(Protocol):
    """A component, as far as health is concerned."""

    @property
    def name(self) -> str: ...

    @property
    def ready(self) -> bool: ...


@dataclass(frozen=True)
class Answer:
    """200 if healthy, 500 if not, and the text of the body."""

    healthy: bool
    text: str
    #: The checks that failed and why, not for the public.
    failures: Mapping[str, str]


class Health:
    """The checks of one endpoint, `livez` or `readyz`, in the order they are shown."""

    def __init__(self, endpoint: str, checks: Mapping[str, Check]) -> None:
        self._endpoint = endpoint
        self._checks = {"ping": ping, **checks}

    def answer(self, *, verbose: bool = False, exclude: Collection[str] = ()) -> Answer:
        """What the endpoint says of all its checks but the excluded ones. A failure always tells everything."""
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
        """What the path of a single check says, which is not withheld; None if there is no such check."""
        check = self._checks.get(name)
        if check is None:
            return None
        reason = check()
        if reason is None:
            return Answer(True, "ok", {})
        return Answer(False, f"internal server error: {reason}\n", {name: reason})


def ping() -> str | None:
    """That this runs at all is the check."""
    return None


def readiness(components: Iterable[Acting], *, leads: Callable[[], bool] = lambda: True) -> dict[str, Check]:
    """A check per component of a process: whether it acts.

    An instance that stands by for a leader is ready although it does not act, as upstream has it: a rollout that
    waited for a standby to act would never end.
    """

    def check(component: Acting) -> Check:
        return lambda: "not ready" if leads() and not component.ready else None

    checks: dict[str, Check] = {}
    for component in components:
        if component.name in checks:
            raise ValueError(f"two components are called {component.name}: one would hide the other")
        checks[component.name] = check(component)
    return checks
