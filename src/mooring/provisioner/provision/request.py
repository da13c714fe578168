"""The CreateVolume request for a claim, and the PersistentVolume for its response. Pure.

A `ProvisioningPlan` holds everything that an attempt needs as plain values: repeated after a lost response, by this or
by the next process, it requests the same volume. Checks are in external-provisioner's order, because the event shows
the first that fails.
"""

import random
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from mooring.api import quantity, well_known
from mooring.api.quantity import QuantityError
from mooring.api.views.meta import ApiObject, Meta, ObjectReference
from mooring.api.views.storage import Claim, SecretReference, StorageClass
from mooring.backoff import KeyedBackoff
from mooring.csi import contract
from mooring.csi.contract import ControllerCapability, CreateVolume, DriverVolume, Topology, VolumeCapability
from mooring.provisioner.provision import secrets as provision_secrets
from mooring.provisioner.provision.eligibility import data_source_refusal
from mooring.provisioner.provision.secrets import SECRET_KEYS
from mooring.provisioner.provision.topology import (
    TopologyRequest,
    TopologySource,
    abridged,
    requirements,
    term,
    unabridged,
)
from mooring.provisioner.settings import DriverFacts, ProvisionerSettings, ProvisioningFailure, ProvisioningState


def volume_capabilities(
    claim: Claim, *, fs_type: str, mount_flags: Sequence[str], finer: bool
) -> tuple[VolumeCapability, ...]:
    """One per access mode, in the claim's order; `finer`: the driver has SINGLE_NODE_MULTI_WRITER."""
    modes = contract.access_modes(finer=finer)
    unknown = [mode for mode in claim.spec.access_modes if mode not in modes]
    if unknown:
        raise _finished(f"unknown access mode {unknown[0]!r}")
    return tuple(
        VolumeCapability.of(modes[mode], claim.spec.volume_mode, fs_type=fs_type, mount_flags=mount_flags)
        for mode in claim.spec.access_modes
    )


RESERVED: Final = "csi.storage.k8s.io/"
FSTYPE: Final = f"{RESERVED}fstype"
_KNOWN: Final = frozenset({FSTYPE}) | SECRET_KEYS

# What --extra-create-metadata adds.
CLAIM_NAME: Final = f"{RESERVED}pvc/name"
CLAIM_NAMESPACE: Final = f"{RESERVED}pvc/namespace"
VOLUME_NAME: Final = f"{RESERVED}pv/name"


def fs_type_of(parameters: Mapping[str, str], default: str) -> str:
    """The file system in the class parameters, under either key; the default without one."""
    naming = [key for key in parameters if key.lower() == "fstype" or key == FSTYPE]
    if len(naming) > 1:
        raise _finished(f"fstype is given more than once in the class parameters: {', '.join(naming)}")
    return parameters[naming[0]] if naming else default


def driver_parameters(parameters: Mapping[str, str]) -> dict[str, str]:
    """The parameters of CreateVolume: without reserved keys, of which an unknown one is an error. Deprecated keys
    without the prefix stay, because drivers may rely on them."""
    reserved = [key for key in parameters if key.startswith(RESERVED)]
    unknown = sorted(key for key in reserved if key not in _KNOWN)
    if unknown:
        raise _finished(f'found unknown parameter key "{unknown[0]}" with reserved namespace {RESERVED}')
    return {key: value for key, value in parameters.items() if key not in reserved}


def volume_name(claim_uid: str, *, prefix: str, uuid_length: int) -> str:
    """`pvc-<uid>`, or the first `uuid_length` digits of the uid: name of the driver's volume and PersistentVolume."""
    uid = claim_uid if uuid_length < 0 else claim_uid.replace("-", "")[:uuid_length]
    return f"{prefix}-{uid}"


#: Annotations of the volume for its deletion: the class may be deleted by then.
DELETION_SECRET_NAME = "volume.kubernetes.io/provisioner-deletion-secret-name"
DELETION_SECRET_NAMESPACE = "volume.kubernetes.io/provisioner-deletion-secret-namespace"
MODIFY_SECRET_NAME = "volume.kubernetes.io/controller-modify-secret-name"
MODIFY_SECRET_NAMESPACE = "volume.kubernetes.io/controller-modify-secret-namespace"

#: The largest size in a CSI message.
MAX_CSI_BYTES = 2**63 - 1

#: Field of each secret in a volume's `csi` source.
_REFERENCES = {
    provision_secrets.CONTROLLER_PUBLISH: "controllerPublishSecretRef",
    provision_secrets.NODE_STAGE: "nodeStageSecretRef",
    provision_secrets.NODE_PUBLISH: "nodePublishSecretRef",
    provision_secrets.CONTROLLER_EXPAND: "controllerExpandSecretRef",
    provision_secrets.NODE_EXPAND: "nodeExpandSecretRef",
}


class ProvisioningPlan(msgspec.Struct, frozen=True):
    """One attempt to provision a claim. Encoded in provisioning records."""

    request: CreateVolume
    #: The volume's claimRef.
    claim: dict[str, str]
    storage_class: str
    #: The selected node; "" without one.
    node: str
    #: Its values go with the request.
    secret: SecretReference | None
    #: The PersistentVolume without the fields of the driver's response.
    draft: dict[str, Any]
    #: The request's requirement names the first of all segments; `complete_request` adds the others. One segment per
    #: node would not fit into a record.
    all_segments: bool = False


class ConfiguredDriver(NamedTuple):
    facts: DriverFacts
    settings: ProvisionerSettings

    def volume_name(self, claim_uid: str) -> str:
        settings = self.settings
        return volume_name(claim_uid, prefix=settings.volume_name_prefix, uuid_length=settings.volume_name_uuid_length)

    def retry_backoff(self) -> KeyedBackoff[str]:
        return KeyedBackoff(self.settings.retry_interval_start, self.settings.retry_interval_max)


def plan_provisioning(
    claim: Claim, storage_class: StorageClass, driver: ConfiguredDriver, topology: TopologySource, rng: random.Random
) -> ProvisioningPlan:
    """The plan for the claim, on its selected node if it has one. Raises ProvisioningFailure."""
    facts, settings = driver
    _check_supported(claim, facts)
    name = driver.volume_name(claim.uid)
    fs_type = fs_type_of(storage_class.parameters, settings.default_fstype)
    finer = ControllerCapability.SINGLE_NODE_MULTI_WRITER in facts.controller_capabilities
    capabilities = volume_capabilities(claim, fs_type=fs_type, mount_flags=storage_class.mount_options, finer=finer)
    node = claim.selected_node or ""
    accessibility, all_segments = None, False
    if facts.has_topology:
        topology_request = TopologyRequest(
            driver=facts.name,
            claim_name=claim.name,
            allowed=storage_class.allowed_topologies,
            selected_node=node,
            strict=settings.strict_topology,
            immediate_topology=settings.immediate_topology,
        )
        accessibility = requirements(topology_request, topology, rng)
        if accessibility is not None and topology_request.names_all_segments:
            accessibility, all_segments = abridged(accessibility), True
    secrets = _secrets(claim, storage_class, name)
    parameters = driver_parameters(storage_class.parameters)
    if settings.extra_create_metadata:
        parameters |= {CLAIM_NAME: claim.name, CLAIM_NAMESPACE: claim.namespace, VOLUME_NAME: name}
    try:
        # A claim may request more than fits into a CSI message.
        size = min(quantity.to_bytes(claim.request), MAX_CSI_BYTES)
    except QuantityError as error:
        raise _finished(str(error)) from error
    return ProvisioningPlan(
        request=CreateVolume(
            name=name,
            required_bytes=size,
            capabilities=capabilities,
            parameters=parameters,
            accessibility=accessibility,
        ),
        claim=claim.reference.body(),
        storage_class=claim.storage_class,
        node=node,
        secret=secrets.get(provision_secrets.PROVISIONER),
        draft=_draft(claim, storage_class, driver, name, fs_type=fs_type, capabilities=capabilities, secrets=secrets),
        all_segments=all_segments,
    )


def complete_request(plan: ProvisioningPlan, topology: TopologySource) -> CreateVolume:
    """The request as it is sent."""
    first = plan.request.accessibility
    if first is None or not plan.all_segments:
        return plan.request
    return msgspec.structs.replace(plan.request, accessibility=unabridged(first, topology))


def minimal_claim(reference: ObjectReference) -> Claim:
    """A deleted claim, as far as a volume's claimRef describes it."""
    return Claim(metadata=Meta(name=reference.name, namespace=reference.namespace, uid=reference.uid))


def claim_of_plan(plan: ProvisioningPlan) -> ApiObject:
    """The plan's claim, as far as events and preconditions need it; the claim itself may be deleted."""
    claim = plan.claim
    return ApiObject(metadata=Meta(name=claim["name"], namespace=claim["namespace"], uid=claim["uid"]))


def _finished(text: str) -> ProvisioningFailure:
    return ProvisioningFailure(ProvisioningState.FINISHED, text)


def _check_supported(claim: Claim, facts: DriverFacts) -> None:
    """Refuses features that the driver or this provisioner lacks."""
    if refusal := data_source_refusal(claim):
        raise _finished(refusal)
    if contract.PluginCapability.CONTROLLER_SERVICE not in facts.plugin_capabilities:
        raise _finished("CSI driver does not support dynamic provisioning: plugin CONTROLLER_SERVICE")
    if ControllerCapability.CREATE_DELETE_VOLUME not in facts.controller_capabilities:
        raise _finished("CSI driver does not support dynamic provisioning: controller CREATE_DELETE_VOLUME")
    if claim.spec.volume_attributes_class_name:
        raise _finished("volumeAttributesClassName is not supported by this provisioner")
    if claim.spec.selector is not None:
        raise _finished("claim Selector is not supported")


_Secrets = dict[provision_secrets.Purpose, SecretReference]


def _secrets(claim: Claim, storage_class: StorageClass, name: str) -> _Secrets:
    resolve, parameters = provision_secrets.resolve_secret, storage_class.parameters
    found = {purpose: resolve(purpose, parameters, claim, name) for purpose in provision_secrets.PURPOSES}
    return {purpose: reference for purpose, reference in found.items() if reference is not None}


def _draft(
    claim: Claim,
    storage_class: StorageClass,
    driver: ConfiguredDriver,
    name: str,
    *,
    fs_type: str,
    capabilities: tuple[VolumeCapability, ...],
    secrets: _Secrets,
) -> dict[str, Any]:
    csi: dict[str, Any] = {"driver": driver.facts.name}
    block = claim.spec.volume_mode == "Block"
    if fs_type and not block:
        csi["fsType"] = fs_type
    modes = [use.mode for use in capabilities]
    if driver.settings.controller_publish_readonly and modes == [contract.AccessMode.MULTI_NODE_READER_ONLY]:
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
    annotations = {well_known.PROVISIONED_BY: storage_class.provisioner} | _secret_annotations(secrets)
    return {
        "metadata": {"name": name, "annotations": annotations, "finalizers": [well_known.EXTERNAL_PROVISIONER]},
        "spec": spec,
    }


def _secret_annotations(secrets: _Secrets) -> dict[str, str]:
    """The deletion secret is annotated even if there is none: deletion then does not read the class."""
    deletion = secrets.get(provision_secrets.PROVISIONER)
    annotations = {
        DELETION_SECRET_NAME: deletion.name if deletion is not None else "",
        DELETION_SECRET_NAMESPACE: deletion.namespace if deletion is not None else "",
    }
    modify = secrets.get(provision_secrets.CONTROLLER_MODIFY)
    if modify is not None:
        annotations |= {MODIFY_SECRET_NAME: modify.name, MODIFY_SECRET_NAMESPACE: modify.namespace}
    return annotations


#: Volume attribute with the provisioner's identity.
PROVISIONER_IDENTITY = "storage.kubernetes.io/csiProvisionerIdentity"


def unusable(plan: ProvisioningPlan, created: DriverVolume) -> ProvisioningFailure | None:
    """Why the created volume cannot be used; it must be deleted before the next attempt."""
    required, actual = plan.request.required_bytes, created.capacity_bytes
    if not created.volume_id:
        return ProvisioningFailure(ProvisioningState.IN_BACKGROUND, "the driver returned a volume without an id")
    if actual and actual < required:
        return ProvisioningFailure(
            ProvisioningState.IN_BACKGROUND, f"created volume capacity {actual} less than requested capacity {required}"
        )
    return None


def volume_body(
    plan: ProvisioningPlan, created: DriverVolume, facts: DriverFacts, *, created_at: str
) -> dict[str, Any]:
    """The PersistentVolume: the plan's draft with the driver's response and its time."""
    spec = dict(plan.draft["spec"])
    spec["capacity"] = {"storage": size(created.capacity_bytes or plan.request.required_bytes)}
    spec["csi"] = spec["csi"] | {
        "volumeHandle": created.volume_id,
        "volumeAttributes": {PROVISIONER_IDENTITY: facts.identity} | dict(created.context),
    }
    terms = _terms(created.accessible_from) if facts.has_topology else []
    if terms:
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}
    metadata = dict(plan.draft["metadata"])
    metadata["annotations"] = metadata["annotations"] | {well_known.VOLUME_CREATED_AT: created_at}
    return {"metadata": metadata, "spec": spec}


def size(count: int) -> str:
    """Bytes in binary units: 5Gi."""
    return quantity.canonical(f"{count // 1024}Ki") if count and count % 1024 == 0 else str(count)


def _terms(topology: tuple[Topology, ...]) -> list[dict[str, Any]]:
    """One per topology; one without segments would make a term that the API server rejects."""
    return [
        {"matchExpressions": [{"key": key, "operator": "In", "values": [value]} for key, value in term(each.segments)]}
        for each in topology
        if each.segments
    ]
