"""Metadata, and the types that views of several kinds share."""

import msgspec

#: A resource amount in JSON; `quantity` parses it.
Amount = str | int | float


class View(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Options of all views."""


class OwnerReference(View, frozen=True, gc=False):
    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False
    block_owner_deletion: bool = False


class Meta(View, frozen=True, gc=False):
    """`metadata`; absent and empty fields are not distinguished."""

    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    finalizers: tuple[str, ...] = ()
    owner_references: tuple[OwnerReference, ...] = ()


class ApiObject(View, frozen=True, gc=False):
    """Base of all objects, and the view of kinds of which only metadata is read."""

    metadata: Meta = Meta()

    @property
    def name(self) -> str:
        return self.metadata.name

    @property
    def namespace(self) -> str:
        return self.metadata.namespace

    @property
    def uid(self) -> str:
        return self.metadata.uid

    @property
    def key(self) -> str:
        """`namespace/name`, or `name` for cluster-scoped kinds: unique within a kind."""
        meta = self.metadata
        return f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name

    @property
    def deleting(self) -> bool:
        return self.metadata.deletion_timestamp is not None

    @property
    def controller(self) -> OwnerReference | None:
        """The owner reference with `controller: true`, if any."""
        return next((o for o in self.metadata.owner_references if o.controller), None)

    def object_reference(self, kind: str, api_version: str) -> "ObjectReference":
        """A reference to this object, which is of this kind."""
        meta = self.metadata
        return ObjectReference(kind, api_version, meta.namespace, meta.name, meta.uid, meta.resource_version)


class ObjectReference(View, frozen=True, gc=False):
    kind: str = ""
    api_version: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    resource_version: str = ""
    field_path: str = ""

    def body(self) -> dict[str, str]:
        """JSON for writing into other objects; unlike other views this one has all fields."""
        return {field: value for field, value in msgspec.to_builtins(self).items() if value}


class Condition(View, frozen=True, gc=False):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None


class SelectorRequirement(View, frozen=True, gc=False):
    """An entry of `matchExpressions`, of label selectors and node selectors."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class LabelSelectorView(View, frozen=True, gc=False):
    match_labels: dict[str, str] = {}
    match_expressions: tuple[SelectorRequirement, ...] = ()


class NodeSelectorTermView(View, frozen=True, gc=False):
    match_expressions: tuple[SelectorRequirement, ...] = ()
    match_fields: tuple[SelectorRequirement, ...] = ()


class NodeSelectorView(View, frozen=True, gc=False):
    node_selector_terms: tuple[NodeSelectorTermView, ...] = ()
