"""Role bindings: the API group of what they name, which is the only one there is."""

from typing import Final

from mooring.server.body import Body, part, rows

GROUP: Final = "rbac.authorization.k8s.io"


def default_binding(obj: Body) -> None:
    if not part(obj, "roleRef").get("apiGroup"):
        obj["roleRef"] = part(obj, "roleRef") | {"apiGroup": GROUP}
    for subject in rows(obj, "subjects"):
        if subject.get("kind") in ("User", "Group"):
            subject.setdefault("apiGroup", GROUP)
