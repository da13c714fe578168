"""What to ask the driver for a claim, and the PersistentVolume that will say what it made.

Pure. A `Plan` holds everything an attempt needs, as plain values: repeated after a lost answer, by this process or by
the next one, it asks for exactly the same volume again. The steps come in external-provisioner's order, because the
first that fails is what people read.
"""

import random
from typing import Any, NamedTuple

import msgspec

from mooring.api import keys, quantity
from mooring.api.quantity import QuantityError
from mooring.api.views.claim import Claim
from mooring.api.views.meta import ApiObject, Meta, ObjectReference
from mooring.api.views.storage import StorageClass
from mooring.csi.contract import (
    AccessibilityRequirements,
    AccessMode,
    ControllerCapability,
    CreateVolume,
    PluginCapability,
    VolumeCapability,
)
from mooring.provisioner import class_parameters, secret_references
from mooring.provisioner.access import capabilities
from mooring.provisioner.accessibility import Places, Wish, requirements
from mooring.provisioner.attempt import Refusal, State
from mooring.provisioner.data_sources import filled_by
from mooring.provisioner.secret_references import SecretReference
from mooring.provisioner.settings import DriverFacts, Settings
from mooring.provisioner.volume_names import volume_name

#: What deletion will need, remembered on the volume: by then the class may be gone.
DELETION_SECRET_NAME = "volume.kubernetes.io/provisioner-deletion-secret-name"
DELETION_SECRET_NAMESPACE = "volume.kubernetes.io/provisioner-deletion-secret-namespace"
MODIFY_SECRET_NAME = "volume.kubernetes.io/controller-modify-secret-name"
MODIFY_SECRET_NAMESPACE = "volume.kubernetes.io/controller-modify-secret-namespace"

#: The largest amount in a CSI message.
MOST_BYTES = 2**63 - 1

#: Where the reference to each secret goes in a volume's `csi` source.
_REFERENCES = {
    secret_references.CONTROLLER_PUBLISH: "controllerPublishSecretRef",
    secret_references.NODE_STAGE: "nodeStageSecretRef",
    secret_references.NODE_PUBLISH: "nodePublishSecretRef",
    secret_references.CONTROLLER_EXPAND: "controllerExpandSecretRef",
    secret_references.NODE_EXPAND: "nodeExpandSecretRef",
}


class Plan(msgspec.Struct, frozen=True):
    """One attempt at one claim's volume."""

    request: CreateVolume
    #: The claim as its volume will name it.
    claim: dict[str, str]
    storage_class: str
    #: The node it is made for; "" where any will do.
    node: str
    #: Whose data goes with the request.
    secret: SecretReference | None
    #: The PersistentVolume, as far as it is known before the driver has answered.
    draft: dict[str, Any]


class Driver(NamedTuple):
    """The driver and how it is to be used."""

    facts: DriverFacts
    settings: Settings


def plan(
    claim: Claim, storage_class: StorageClass, driver: Driver, places: Places, rng: random.Random
) -> Plan | Refusal:
    """What to do for the claim, on its selected node if it has one."""
    facts, settings = driver
    unable = _unable(claim, facts)
    if unable is not None:
        return unable
    name = volume_name(claim.uid, prefix=settings.volume_name_prefix, uuid_length=settings.volume_name_uuid_length)
    fs_type = class_parameters.fs_type(storage_class.parameters, settings.default_fstype)
    if isinstance(fs_type, Refusal):
        return fs_type
    finer = ControllerCapability.SINGLE_NODE_MULTI_WRITER in facts.controller_capabilities
    uses = capabilities(claim, fs_type=fs_type, mount_flags=storage_class.mount_options, finer=finer)
    if isinstance(uses, Refusal):
        return uses
    node = claim.selected_node or ""
    where = _where(claim, storage_class, driver, node, places, rng)
    if isinstance(where, Refusal):
        return where
    secrets = _secrets(claim, storage_class, name)
    if isinstance(secrets, Refusal):
        return secrets
    parameters = class_parameters.for_driver(storage_class.parameters)
    if isinstance(parameters, Refusal):
        return parameters
    if settings.extra_create_metadata:
        parameters |= class_parameters.metadata(
            claim_name=claim.name, claim_namespace=claim.namespace, volume_name=name
        )
    try:
        # A claim may ask for more than CSI can say; no driver has that much either.
        size = min(quantity.to_bytes(claim.request), MOST_BYTES)
    except QuantityError as error:
        return Refusal(State.FINISHED, str(error))
    return Plan(
        request=CreateVolume(
            name=name, required_bytes=size, capabilities=uses, parameters=parameters, accessibility=where
        ),
        claim=claim.reference.body(),
        storage_class=claim.storage_class,
        node=node,
        secret=secrets.get(secret_references.PROVISIONER),
        draft=_draft(claim, storage_class, driver, name, fs_type=fs_type, uses=uses, secrets=secrets),
    )


def stand_in(reference: ObjectReference) -> Claim:
    """As much of a claim that is gone as a volume still knows of it."""
    return Claim(metadata=Meta(name=reference.name, namespace=reference.namespace, uid=reference.uid))


def named(plan: Plan) -> ApiObject:
    """The plan's claim, as much of it as events and preconditions need; the claim itself may be gone."""
    claim = plan.claim
    return ApiObject(metadata=Meta(name=claim["name"], namespace=claim["namespace"], uid=claim["uid"]))


def _unable(claim: Claim, facts: DriverFacts) -> Refusal | None:
    """What neither this driver nor we can do."""
    source = filled_by(claim)
    if isinstance(source, Refusal):
        return source
    if PluginCapability.CONTROLLER_SERVICE not in facts.plugin_capabilities:
        return Refusal(State.FINISHED, "CSI driver does not support dynamic provisioning: plugin CONTROLLER_SERVICE")
    if ControllerCapability.CREATE_DELETE_VOLUME not in facts.controller_capabilities:
        text = "CSI driver does not support dynamic provisioning: controller CREATE_DELETE_VOLUME"
        return Refusal(State.FINISHED, text)
    if claim.spec.volume_attributes_class_name:
        return Refusal(State.FINISHED, "volumeAttributesClassName is not supported by this provisioner")
    if claim.spec.selector is not None:
        return Refusal(State.FINISHED, "claim Selector is not supported")
    return None


def _where(
    claim: Claim, storage_class: StorageClass, driver: Driver, node: str, places: Places, rng: random.Random
) -> AccessibilityRequirements | Refusal | None:
    if not driver.facts.knows_topology:
        return None
    wish = Wish(
        driver=driver.facts.name,
        claim_name=claim.name,
        allowed=storage_class.allowed_topologies,
        selected_node=node,
        strict=driver.settings.strict_topology,
        immediate_topology=driver.settings.immediate_topology,
    )
    return requirements(wish, places, rng)


_Secrets = dict[secret_references.Purpose, SecretReference]


def _secrets(claim: Claim, storage_class: StorageClass, name: str) -> _Secrets | Refusal:
    found: _Secrets = {}
    for purpose in secret_references.PURPOSES:
        reference = secret_references.resolve(purpose, storage_class.parameters, claim, name)
        if isinstance(reference, Refusal):
            return reference
        if reference is not None:
            found[purpose] = reference
    return found


def _draft(
    claim: Claim,
    storage_class: StorageClass,
    driver: Driver,
    name: str,
    *,
    fs_type: str,
    uses: tuple[VolumeCapability, ...],
    secrets: _Secrets,
) -> dict[str, Any]:
    csi: dict[str, Any] = {"driver": driver.facts.name}
    block = claim.spec.volume_mode == "Block"
    if fs_type and not block:
        csi["fsType"] = fs_type
    if driver.settings.controller_publish_readonly and [use.mode for use in uses] == [
        AccessMode.MULTI_NODE_READER_ONLY
    ]:
        csi["readOnly"] = True
    csi |= {_REFERENCES[purpose]: secrets[purpose].body() for purpose in _REFERENCES if purpose in secrets}
    spec: dict[str, Any] = {
        "accessModes": list(claim.spec.access_modes),
        "persistentVolumeReclaimPolicy": storage_class.reclaim_policy,
        "storageClassName": claim.storage_class,
        "volumeMode": claim.spec.volume_mode,
        "claimRef": claim.reference.body(),
        "csi": csi,
    }
    if storage_class.mount_options:
        spec["mountOptions"] = list(storage_class.mount_options)
    annotations = {keys.PROVISIONED_BY: storage_class.provisioner} | _remembered(secrets)
    return {
        "metadata": {"name": name, "annotations": annotations, "finalizers": [keys.EXTERNAL_PROVISIONER]},
        "spec": spec,
    }


def _remembered(secrets: _Secrets) -> dict[str, str]:
    """The deletion secret is remembered even where there is none: that saves looking for the class later."""
    deletion = secrets.get(secret_references.PROVISIONER)
    notes = {
        DELETION_SECRET_NAME: deletion.name if deletion is not None else "",
        DELETION_SECRET_NAMESPACE: deletion.namespace if deletion is not None else "",
    }
    modify = secrets.get(secret_references.CONTROLLER_MODIFY)
    if modify is not None:
        notes |= {MODIFY_SECRET_NAME: modify.name, MODIFY_SECRET_NAMESPACE: modify.namespace}
    return notes
