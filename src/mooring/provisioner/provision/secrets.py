"""Secret references in the parameters of a StorageClass, resolved for one claim. Pure.

Only the provisioner secret is read, in `create`; the others become references in the PersistentVolume, for attacher,
kubelet and resizer.
"""

import re
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from mooring.api.names import check_dns1123_label, check_dns1123_subdomain
from mooring.api.views.storage import Claim, SecretReference
from mooring.provisioner.settings import ProvisioningFailure, ProvisioningState


class Purpose(NamedTuple):
    """Parameter keys of one purpose: the current pair, and the deprecated one if it exists."""

    key: str
    deprecated: str = ""

    @property
    def pairs(self) -> tuple[tuple[str, str], ...]:
        current = (f"csi.storage.k8s.io/{self.key}-secret-name", f"csi.storage.k8s.io/{self.key}-secret-namespace")
        return (current, (f"{self.deprecated}Name", f"{self.deprecated}Namespace")) if self.deprecated else (current,)


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
#: For every purpose without its own secret.
_FALLBACK: Final = ("csi.storage.k8s.io/secret-name", "csi.storage.k8s.io/secret-namespace")
#: Reserved keys, which are not passed to the driver.
SECRET_KEYS: Final = frozenset(_FALLBACK) | {key for purpose in PURPOSES for key in purpose.pairs[0]}

#: `${token}`, and `$token` as Go's expansion also reads it.
_TOKEN: Final = re.compile(r"\$(?:\{(?P<braced>[^}]*)\}|(?P<bare>\w+))")
_ANNOTATION: Final = re.compile(r"pvc\.annotations\['(?P<key>.*)'\]")


def resolve_secret(
    purpose: Purpose, parameters: Mapping[str, str], claim: Claim, volume_name: str
) -> SecretReference | None:
    """The secret of a purpose; None if the class names none. Raises ProvisioningFailure."""
    pair = _named_pair(purpose, parameters)
    if pair is None:
        return None
    name_key, namespace_key = pair
    if name_key not in parameters or namespace_key not in parameters:
        raise _failure(f"only one of {name_key} and {namespace_key} is given: either both or none must be")
    namespace_tokens = {"pv.name": volume_name, "pvc.namespace": claim.namespace}
    name_tokens = namespace_tokens | {"pvc.name": claim.name}
    annotations = claim.metadata.annotations
    namespace = _filled(parameters[namespace_key], namespace_key, namespace_tokens, {}, check_dns1123_label)
    name = _filled(parameters[name_key], name_key, name_tokens, annotations, check_dns1123_subdomain)
    return SecretReference(name, namespace)


def _named_pair(purpose: Purpose, parameters: Mapping[str, str]) -> tuple[str, str] | None:
    given = [pair for pair in purpose.pairs if pair[0] in parameters or pair[1] in parameters]
    if len(given) > 1:
        both = " and ".join(f"{name}/{namespace}" for name, namespace in given)
        raise _failure(f"the {purpose.key} secret is given under both its names: {both}")
    if given:
        return given[0]
    return _FALLBACK if any(key in parameters for key in _FALLBACK) else None


def _filled(
    template: str,
    key: str,
    tokens: Mapping[str, str],
    annotations: Mapping[str, str],
    check: Callable[[str], list[str]],
) -> str:
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
        raise _failure(f"{key} is empty")
    filled = _TOKEN.sub(value, template)
    if unresolved:
        raise _failure(f"{key}: cannot resolve {', '.join(unresolved)} in {template!r}")
    problems = check(filled)
    if problems:
        raise _failure(f"{key}: {template!r} gives the invalid name {filled!r}: {'; '.join(problems)}")
    return filled


def _failure(text: str) -> ProvisioningFailure:
    return ProvisioningFailure(ProvisioningState.NO_CHANGE, text)
