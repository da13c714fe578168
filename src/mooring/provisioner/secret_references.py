"""Which secrets a class wants used with its volumes, with the names filled in for one claim.

Pure: names only. Reading a secret is the shell's, and only the provisioner's own is ever read; the others become
references in the volume, for whoever attaches, mounts or grows it.
"""

import re
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

import msgspec

from mooring.api.object_names import check_dns1123_label, check_dns1123_subdomain
from mooring.api.views.claim import Claim
from mooring.provisioner.attempt import Refusal, State


class SecretReference(msgspec.Struct, frozen=True):
    name: str
    namespace: str

    def body(self) -> dict[str, str]:
        return {"name": self.name, "namespace": self.namespace}


class Purpose(NamedTuple):
    """The class keys of one purpose: today's, and the deprecated pair where there was one."""

    key: str
    deprecated: str = ""

    @property
    def pairs(self) -> tuple[tuple[str, str], ...]:
        today = (f"csi.storage.k8s.io/{self.key}-secret-name", f"csi.storage.k8s.io/{self.key}-secret-namespace")
        return (today, (f"{self.deprecated}Name", f"{self.deprecated}Namespace")) if self.deprecated else (today,)


PROVISIONER: Final = Purpose("provisioner", "csiProvisionerSecret")
CONTROLLER_PUBLISH: Final = Purpose("controller-publish", "csiControllerPublishSecret")
NODE_STAGE: Final = Purpose("node-stage", "csiNodeStageSecret")
NODE_PUBLISH: Final = Purpose("node-publish", "csiNodePublishSecret")
CONTROLLER_EXPAND: Final = Purpose("controller-expand")
NODE_EXPAND: Final = Purpose("node-expand")
CONTROLLER_MODIFY: Final = Purpose("controller-modify")
PURPOSES: Final = (
    PROVISIONER,
    CONTROLLER_PUBLISH,
    NODE_STAGE,
    NODE_PUBLISH,
    CONTROLLER_EXPAND,
    NODE_EXPAND,
    CONTROLLER_MODIFY,
)
#: For every purpose that has no secret of its own.
_FALLBACK: Final = ("csi.storage.k8s.io/secret-name", "csi.storage.k8s.io/secret-namespace")
#: The keys with Kubernetes' prefix, which drivers do not get to see.
SECRET_KEYS: Final = frozenset(_FALLBACK) | {key for purpose in PURPOSES for key in purpose.pairs[0]}

#: `${token}`, and `$token` as Go's expansion also reads it.
_TOKEN: Final = re.compile(r"\$(?:\{(?P<braced>[^}]*)\}|(?P<bare>\w+))")
_ANNOTATION: Final = re.compile(r"pvc\.annotations\['(?P<key>.*)'\]")


def resolve(
    purpose: Purpose, parameters: Mapping[str, str], claim: Claim, volume_name: str
) -> SecretReference | Refusal | None:
    """The secret a class names for a purpose; None where it names none."""
    pair = _named_pair(purpose, parameters)
    if pair is None or isinstance(pair, Refusal):
        return pair
    name_key, namespace_key = pair
    if name_key not in parameters or namespace_key not in parameters:
        return _refused(f"only one of {name_key} and {namespace_key} is given: either both or none must be")
    namespace_tokens = {"pv.name": volume_name, "pvc.namespace": claim.namespace}
    name_tokens = namespace_tokens | {"pvc.name": claim.name}
    annotations = claim.metadata.annotations
    namespace = _filled(parameters[namespace_key], namespace_key, namespace_tokens, {}, check_dns1123_label)
    if isinstance(namespace, Refusal):
        return namespace
    name = _filled(parameters[name_key], name_key, name_tokens, annotations, check_dns1123_subdomain)
    return name if isinstance(name, Refusal) else SecretReference(name, namespace)


def _named_pair(purpose: Purpose, parameters: Mapping[str, str]) -> tuple[str, str] | Refusal | None:
    given = [pair for pair in purpose.pairs if pair[0] in parameters or pair[1] in parameters]
    if len(given) > 1:
        both = " and ".join(f"{name}/{namespace}" for name, namespace in given)
        return _refused(f"the {purpose.key} secret is given under both its names: {both}")
    if given:
        return given[0]
    return _FALLBACK if any(key in parameters for key in _FALLBACK) else None


def _filled(
    template: str,
    key: str,
    tokens: Mapping[str, str],
    annotations: Mapping[str, str],
    check: Callable[[str], list[str]],
) -> str | Refusal:
    unresolved: list[str] = []

    def value(found: re.Match[str]) -> str:
        token = found["braced"] if found["braced"] is not None else found["bare"]
        annotation = _ANNOTATION.fullmatch(token)
        known = tokens.get(token) if annotation is None else annotations.get(annotation["key"])
        if known is None:
            unresolved.append(found[0])
            return ""
        return known

    if not template:
        return _refused(f"{key} is empty")
    filled = _TOKEN.sub(value, template)
    if unresolved:
        return _refused(f"{key}: cannot resolve {', '.join(unresolved)} in {template!r}")
    problems = check(filled)
    if problems:
        return _refused(f"{key}: {template!r} gives {filled!r}, which is no valid name: {'; '.join(problems)}")
    return filled


def _refused(text: str) -> Refusal:
    return Refusal(State.NO_CHANGE, text)
