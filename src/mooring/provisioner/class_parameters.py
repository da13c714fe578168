"""What a class's parameters mean: which go to the driver, which are for Kubernetes, and which file system they name.

Pure. Keys under `csi.storage.k8s.io/` are Kubernetes' own; an unknown one there is a mistake worth an error, anything
else is the driver's business and passed on unseen.
"""

from collections.abc import Mapping
from typing import Final

from mooring.provisioner.attempt import Refusal, State
from mooring.provisioner.secret_references import SECRET_KEYS

RESERVED: Final = "csi.storage.k8s.io/"
FSTYPE: Final = f"{RESERVED}fstype"
_KNOWN: Final = frozenset({FSTYPE}) | SECRET_KEYS

# What --extra-create-metadata adds.
CLAIM_NAME: Final = f"{RESERVED}pvc/name"
CLAIM_NAMESPACE: Final = f"{RESERVED}pvc/namespace"
VOLUME_NAME: Final = f"{RESERVED}pv/name"


def fs_type(parameters: Mapping[str, str], default: str) -> str | Refusal:
    """The file system a class asks for, under either spelling; the default where it does not say."""
    naming = [key for key in parameters if key.lower() == "fstype" or key == FSTYPE]
    if len(naming) > 1:
        return Refusal(State.FINISHED, f"fstype is given more than once in the class parameters: {', '.join(naming)}")
    return parameters[naming[0]] if naming else default


def for_driver(parameters: Mapping[str, str]) -> dict[str, str] | Refusal:
    """What CreateVolume hands on. Deprecated spellings without the prefix stay in, as drivers may rely on them."""
    reserved = [key for key in parameters if key.startswith(RESERVED)]
    unknown = sorted(key for key in reserved if key not in _KNOWN)
    if unknown:
        return Refusal(State.FINISHED, f'found unknown parameter key "{unknown[0]}" with reserved namespace {RESERVED}')
    return {key: value for key, value in parameters.items() if key not in reserved}


def metadata(*, claim_name: str, claim_namespace: str, volume_name: str) -> dict[str, str]:
    """For drivers that tag what they make."""
    return {CLAIM_NAME: claim_name, CLAIM_NAMESPACE: claim_namespace, VOLUME_NAME: volume_name}
