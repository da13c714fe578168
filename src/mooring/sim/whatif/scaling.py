"""Another number of replicas for a workload, as `kubectl scale` would set it. Pure."""

from typing import Final, NamedTuple

from mooring.api.kinds import DEPLOYMENT, REPLICA_SET, STATEFUL_SET, Kind
from mooring.api.views.meta import ApiObject
from mooring.sim.whatif.inventory import BadQuestion, Inventory

#: How kubectl lets people write the kinds that have replicas.
SCALED: Final[dict[str, Kind[ApiObject]]] = {
    word: kind for kind in (STATEFUL_SET, DEPLOYMENT, REPLICA_SET) for word in (kind.singular, kind.plural, *kind.short)
}


class Scaling(NamedTuple):
    kind: Kind[ApiObject]
    #: `namespace/name`.
    key: str
    replicas: int

    def apply(self, inventory: Inventory) -> None:
        """Raises BadQuestion."""
        kind, key = self.kind, self.key
        if inventory.is_new(kind, key):
            body = inventory.new(kind)[key]
            inventory.create(kind, body | {"spec": body.get("spec", {}) | {"replicas": self.replicas}})
            return
        if not inventory.is_there(kind, key):
            raise BadQuestion(f"there is no {kind.kind} {key} to scale")
        body = inventory.body(kind, key)
        body["spec"]["replicas"] = self.replicas
        body["metadata"]["generation"] = body["metadata"].get("generation", 0) + 1
        inventory.keep(kind, body)


def scaling(text: str, *, namespace: str) -> Scaling:
    """What `sts/NAME=COUNT` says. Raises BadQuestion."""
    workload, equals, count = text.rpartition("=")
    word, slash, name = workload.partition("/")
    if not equals or not slash or not name or "/" in name or not count.isdecimal():
        raise BadQuestion(
            f"{text!r} does not say what to scale: write sts/NAME=COUNT, deploy/NAME=COUNT or rs/NAME=COUNT"
        )
    kind = SCALED.get(word.lower())
    if kind is None:
        raise BadQuestion(f"{word!r} has no replicas to scale: write sts, deploy or rs")
    return Scaling(kind, f"{namespace}/{name}", int(count))
