"""Words the tables of roles share: API groups, sets of verbs, and the rule nearly every component needs."""

from typing import Final

from mooring.server.authorization.policy import rule

APPS: Final = "apps"
AUTHENTICATION: Final = "authentication.k8s.io"
AUTHORIZATION: Final = "authorization.k8s.io"
COORDINATION: Final = "coordination.k8s.io"
DEVICES: Final = "resource.k8s.io"
POLICY: Final = "policy"
RBAC: Final = "rbac.authorization.k8s.io"
STORAGE: Final = "storage.k8s.io"

READ: Final = "get list watch"
WRITE: Final = "create delete deletecollection patch update"
ALL_VERBS: Final = "create delete deletecollection get list patch update watch"

#: Telling what happened, through either of the two APIs.
EVENTS: Final = rule("create patch update", "events", "", "events.k8s.io")
