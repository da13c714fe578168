"""Which right a refusal is about, and the rule that would grant it, in words for whoever looks after the cluster.

Pure: reads the text that Kubernetes' authorizer answers with, which names everything there is to know. Refusals for
other reasons, such as a quota, an admission policy or a namespace that is on its way out, are not about rights.
"""

import re
from typing import Final, NamedTuple

from mooring.api.errors import Forbidden

_REFUSAL: Final = re.compile(
    r'User "(?P<user>[^"]*)" cannot (?P<verb>\S+) resource "(?P<resource>[^"]+)" in API group "(?P<group>[^"]*)" '
    r'(?:at the cluster scope|in the namespace "(?P<namespace>[^"]+)")'
)
#: Informers need both, and are refused one of them first.
_INFORMING: Final = ("list", "watch")


class MissingRight(NamedTuple):
    """Two refusals that one rule would settle are equal."""

    user: str
    verbs: tuple[str, ...]
    resource: str
    group: str
    #: Empty where the right is needed in the whole cluster.
    namespace: str = ""

    @property
    def rule(self) -> str:
        """As it stands in a role's `rules`."""
        return f'{{apiGroups: ["{self.group}"], resources: ["{self.resource}"], verbs: [{", ".join(self.verbs)}]}}'

    @property
    def role(self) -> str:
        """Where the rule belongs."""
        return f"a Role in namespace {self.namespace}" if self.namespace else "a ClusterRole"

    def __str__(self) -> str:
        return f"{self.user} lacks a right: add the rule {self.rule} to {self.role} that is bound to it"


def missing_right(refusal: Forbidden) -> MissingRight | None:
    """None where the refusal is about something else, or says it in words we do not know."""
    found = _REFUSAL.search(refusal.message)
    if found is None:
        return None
    verb = found["verb"]
    verbs = _INFORMING if verb in _INFORMING else (verb,)
    return MissingRight(found["user"], verbs, found["resource"], found["group"], found["namespace"] or "")
