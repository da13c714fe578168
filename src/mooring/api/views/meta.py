"""What every object has: metadata, and the shape all views share."""

import msgspec

#: A resource amount as JSON may carry it; `quantity` turns it into an exact number.
Amount = str | int | float


class View(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Options every view shares. Not an object by itself."""


class OwnerReference(View, frozen=True, gc=False):
    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False
    block_owner_deletion: bool = False


class Meta(View, frozen=True, gc=False):
    """`metadata`. Absent and empty read alike."""

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
    """Any object. By itself it is the view of kinds nobody looks into."""

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
        """`namespace/name`, or `name` for kinds without namespaces: unique within a kind."""
        meta = self.metadata
        return f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name

    @property
    def deleting(self) -> bool:
        return self.metadata.deletion_timestamp is not None

    @property
    def controller(self) -> OwnerReference | None:
        """The one owner that manages this object, if any."""
        return next((o for o in self.metadata.owner_references if o.controller), None)


class ObjectReference(View, frozen=True, gc=False):
    kind: str = ""
    api_version: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    resource_version: str = ""
    field_path: str = ""

    def body(self) -> dict[str, str]:
        """As it is written into other objects: the one view that goes back to the server, since it is whole."""
        said = msgspec.to_builtins(self)
        return {field: value for field, value in said.items() if value}


class Condition(View, frozen=True, gc=False):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None


class SelectorRequirement(View, frozen=True, gc=False):
    """One `matchExpressions` row, of label selectors and of node selectors alike."""

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
