"""The field table: properties of fields, merge keys, and that every kind compiles."""

import pytest

from mooring.api.schema.types import (
    _EVERY_GROUP,
    Field,
    Scalar,
    Shape,
    Type,
    UnknownKind,
    _document,
    type_named,
    type_of,
)


def field_at(api_version: str, kind: str, path: str) -> Field:
    """The field at a dotted path of JSON names, walking through lists and maps."""
    *parents, last = path.split(".")
    type_ = type_of(api_version, kind)
    for parent in parents:
        inner = type_.by_name[parent].value
        assert isinstance(inner, Type)
        type_ = inner
    return type_.by_name[last]


@pytest.mark.parametrize(
    ("api_version", "kind", "path", "key"),
    [
        pytest.param("v1", "Pod", "spec.containers", "name", id="containers"),
        pytest.param("v1", "Pod", "spec.initContainers", "name", id="init containers"),
        pytest.param("v1", "Pod", "spec.ephemeralContainers", "name", id="ephemeral containers"),
        pytest.param("v1", "Pod", "spec.imagePullSecrets", "name", id="pull secrets"),
        pytest.param("v1", "Pod", "spec.schedulingGates", "name", id="scheduling gates"),
        pytest.param("v1", "Pod", "spec.volumes", "name", id="volumes"),
        pytest.param("v1", "Pod", "spec.resourceClaims", "name", id="resource claims"),
        pytest.param("v1", "Pod", "spec.hostAliases", "ip", id="host aliases"),
        pytest.param("v1", "Pod", "spec.topologySpreadConstraints", "topologyKey", id="topology spread"),
        pytest.param("v1", "Pod", "spec.containers.env", "name", id="environment"),
        pytest.param("v1", "Pod", "spec.containers.ports", "containerPort", id="container ports"),
        pytest.param("v1", "Pod", "spec.containers.volumeMounts", "mountPath", id="volume mounts"),
        pytest.param("v1", "Pod", "spec.containers.volumeDevices", "devicePath", id="volume devices"),
        pytest.param("v1", "Pod", "status.conditions", "type", id="pod conditions"),
        pytest.param("v1", "Pod", "status.podIPs", "ip", id="pod addresses"),
        pytest.param("v1", "Node", "status.conditions", "type", id="node conditions"),
        pytest.param("v1", "Node", "status.addresses", "type", id="node addresses"),
        pytest.param("v1", "Node", "spec.podCIDRs", "", id="pod ranges are a set of scalars"),
        pytest.param("v1", "Node", "metadata.finalizers", "", id="finalizers are a set of scalars"),
        pytest.param("v1", "Node", "metadata.ownerReferences", "uid", id="owners"),
        pytest.param("v1", "Service", "spec.ports", "port", id="service ports"),
        pytest.param("v1", "ServiceAccount", "secrets", "name", id="secrets of a service account"),
        pytest.param("v1", "PersistentVolumeClaim", "status.conditions", "type", id="claim conditions"),
        pytest.param("storage.k8s.io/v1", "CSINode", "spec.drivers", "name", id="drivers of a node"),
        pytest.param("apps/v1", "StatefulSet", "status.conditions", "type", id="stateful set conditions"),
        pytest.param("policy/v1", "PodDisruptionBudget", "status.conditions", "type", id="budget conditions"),
        pytest.param("resource.k8s.io/v1", "ResourceClaim", "status.reservedFor", "uid", id="reservations"),
    ],
)
def test_lists_that_merge(api_version: str, kind: str, path: str, key: str) -> None:
    field = field_at(api_version, kind, path)
    assert (field.shape, field.merges, field.merge_key) == (Shape.LIST, True, key)


@pytest.mark.parametrize(
    ("api_version", "kind", "path"),
    [
        pytest.param("v1", "Pod", "spec.tolerations", id="tolerations"),
        pytest.param("v1", "Pod", "spec.containers.args", id="arguments"),
        pytest.param("v1", "Pod", "spec.containers.command", id="command"),
        pytest.param("v1", "Node", "spec.taints", id="taints"),
        pytest.param("v1", "ServiceAccount", "imagePullSecrets", id="pull secrets of a service account"),
        pytest.param("v1", "PersistentVolume", "spec.accessModes", id="access modes"),
        pytest.param("v1", "PersistentVolume", "spec.nodeAffinity.required.nodeSelectorTerms", id="node terms"),
        pytest.param("apps/v1", "StatefulSet", "spec.volumeClaimTemplates", id="claim templates"),
    ],
)
def test_lists_that_are_replaced(api_version: str, kind: str, path: str) -> None:
    field = field_at(api_version, kind, path)
    assert (field.shape, field.merges) == (Shape.LIST, False)


@pytest.mark.parametrize(
    ("api_version", "kind", "path", "strategy"),
    [
        pytest.param("v1", "Pod", "spec.volumes", "merge,retainKeys", id="volumes retain keys"),
        pytest.param("apps/v1", "Deployment", "spec.strategy", "retainKeys", id="deployment strategy"),
        pytest.param("policy/v1", "PodDisruptionBudget", "spec.selector", "replace", id="budget selector"),
        pytest.param("v1", "Pod", "spec.securityContext", "", id="an ordinary map"),
    ],
)
def test_strategies(api_version: str, kind: str, path: str, strategy: str) -> None:
    field = field_at(api_version, kind, path)
    assert field.strategy == strategy
    assert field.replaces == (strategy == "replace")


def test_what_is_known_of_a_field() -> None:
    field = field_at("v1", "PersistentVolumeClaim", "spec.storageClassName")
    assert field is field_at("v1", "PersistentVolumeClaim", "spec.storageClassName"), "types are compiled once"
    assert (field.name, field.number, field.shape, field.value) == ("storageClassName", 5, Shape.ONE, Scalar.STRING)
    assert (field.pointer, field.omit_empty, field.inline) == (True, True, False)


def test_inline_structs_are_flat_in_json_and_a_message_in_protobuf() -> None:
    volume = type_named("core/v1.Volume")
    assert {"name", "emptyDir", "persistentVolumeClaim", "csi"} <= volume.by_name.keys()
    assert "" not in volume.by_name
    assert sorted(volume.by_number) == [1, 2]
    assert volume.by_number[2].inline


def test_api_version_and_kind_are_json_only() -> None:
    pod = type_of("v1", "Pod")
    assert {"apiVersion", "kind"} <= pod.by_name.keys()
    assert 0 not in pod.by_number
    template = type_named("core/v1.PodTemplateSpec")
    assert "kind" not in template.by_name, "a pod template is not an object of its own"


def test_events_of_both_groups_are_different_types() -> None:
    assert "note" in type_of("events.k8s.io/v1", "Event").by_name
    assert "note" not in type_of("v1", "Event").by_name


@pytest.mark.parametrize("api_version", ["v1", "apps/v1", "policy/v1", "meta.k8s.io/v1"])
def test_delete_options_belong_to_every_group_version(api_version: str) -> None:
    assert type_of(api_version, "DeleteOptions").name == "meta/v1.DeleteOptions"


@pytest.mark.parametrize(
    ("api_version", "kind"),
    [
        pytest.param("v1", "Widget", id="no such kind"),
        pytest.param("apps/v1", "Pod", id="kind of another group"),
        pytest.param("example.com/v1", "Pod", id="no such group"),
        pytest.param("*", "Pod", id="the file's own name for every group"),
        pytest.param("", "", id="nothing at all"),
    ],
)
def test_unknown_kinds(api_version: str, kind: str) -> None:
    with pytest.raises(UnknownKind, match=f'no kind "{kind}" is registered for version') as caught:
        type_of(api_version, kind)
    assert isinstance(caught.value, LookupError)
    assert (caught.value.api_version, caught.value.kind) == (api_version, kind)


def test_every_kind_compiles_and_keeps_what_readers_rely_on() -> None:
    kinds = [
        (version, kind) for version, kinds in _document().kinds.items() if version != _EVERY_GROUP for kind in kinds
    ]
    assert len(kinds) > 80
    seen: set[Type] = set()
    for api_version, kind in kinds:
        check_type(type_of(api_version, kind), seen)


def check_type(type_: Type, seen: set[Type]) -> None:
    if type_ in seen:
        return
    seen.add(type_)
    numbers = [field.number for field in type_.fields if field.number]
    assert len(numbers) == len(set(numbers)), f"{type_.name} has a number twice"
    assert all(type_.by_name), f"{type_.name} has a field without a name"
    for field in type_.fields:
        if isinstance(field.value, Type):
            assert not field.merges or field.merge_key in field.value.by_name, f"{type_.name}.{field.name}"
            check_type(field.value, seen)
