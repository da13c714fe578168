"""The answer to a question: the control plane let loose on virtual time until nothing happens any more, and the result
compared with how things were. The same question gets the same answer, byte for byte.
"""

import random
from typing import Final

import msgspec

from mooring.api import keys
from mooring.api.errors import ApiError
from mooring.api.kinds import (
    CLAIM,
    DAEMON_SET,
    DEPLOYMENT,
    NODE,
    POD,
    REPLICA_SET,
    STATEFUL_SET,
    STORAGE_CAPACITY,
    VOLUME,
    Kind,
)
from mooring.api.patches.contract import MergePatch
from mooring.api.timestamps import from_time
from mooring.api.views.meta import ApiObject
from mooring.api.views.pod import Pod
from mooring.client.informer import Informers
from mooring.cluster.bootstrap import Progress, no_progress
from mooring.sim import loop
from mooring.sim.loop import EPOCH, VirtualClock
from mooring.sim.whatif.comparison import Cluster, Comparison, Told
from mooring.sim.whatif.explanations import explanations
from mooring.sim.whatif.inventory import KINDS, BadQuestion, Body, Inventory
from mooring.sim.whatif.outcome import Outcome
from mooring.sim.whatif.plane import Plane
from mooring.sim.whatif.question import Prepared, Question, prepared
from mooring.sim.whatif.verdict import is_good, verdict
from mooring.store.contract import ABSENT

#: Simulated seconds without a write after which nothing more will happen: longer than the scheduler's longest backoff,
#: a provisioner's first retries and the pause between two evictions.
QUIET_SECONDS: Final = 60.0
#: Simulated seconds after which a cluster that finds no rest is judged as it is.
LONGEST: Final = 4 * 3600.0
#: Simulated seconds between two looks whether something still happens.
_GLANCE: Final = 1.0
#: Objects put into the store between two reports of progress.
_LOADED_AT_ONCE: Final = 2000

_SETS: Final = {"statefulset": STATEFUL_SET, "replicaset": REPLICA_SET}


def answer(question: Question, progress: Progress = no_progress) -> Outcome:
    """Raises BadQuestion."""
    begin = prepared(question)

    async def main(clock: VirtualClock) -> Outcome:
        rng = random.Random(question.seed)
        plane = Plane(begin, clock=clock, rng=rng)
        await _load(plane, begin.inventory, progress)
        async with plane.running():
            seconds = await _settle(plane, progress)
            return _outcome(plane, begin, seconds)

    return loop.run(main, start=_newest(begin.inventory))


async def _load(plane: Plane, inventory: Inventory, progress: Progress) -> None:
    """What is there goes straight into the store, before anybody listens; what is to come, through the API."""
    total = len(inventory)
    for count, (key, value) in enumerate(inventory.stored()):
        if count % _LOADED_AT_ONCE == 0:
            progress("loading", count, total)
        await plane.store.write(key, value, expect=ABSENT)
    for kind, key, body in inventory.coming():
        try:
            await _bring(plane, kind, body, changes=inventory.is_there(kind, key))
        except ApiError as error:
            raise BadQuestion(f"{kind.kind} {key}: {error.message}") from error


async def _bring(plane: Plane, kind: Kind[ApiObject], body: Body, *, changes: bool) -> None:
    namespace = body["metadata"].get("namespace") or "default" if kind.namespaced else ""
    if changes:
        await plane.client.patch(kind, body["metadata"]["name"], MergePatch(body), namespace=namespace)
    else:
        await plane.client.create(kind, body, namespace=namespace)


async def _settle(plane: Plane, progress: Progress) -> float:
    """Let time pass until nothing was written for a while; answers with when the last write was."""
    clock = plane.clock
    waiting: set[str] = set()

    def on_pod(before: Pod | None, after: Pod | None) -> None:
        for pod in (before, after):
            if pod is not None:
                (waiting.discard if pod is before or pod.spec.node_name else waiting.add)(pod.key)

    plane.informers.of(POD).on_change(on_pod)
    most = len(waiting)
    quiet = QUIET_SECONDS + _slowest(plane.informers)
    started = clock.monotonic()
    while clock.monotonic() - plane.store.last_write < quiet and clock.monotonic() - started < LONGEST:
        most = max(most, len(waiting))
        progress("simulating", most - len(waiting), most)
        await clock.sleep(_GLANCE)
    return plane.store.last_write - started


def _slowest(informers: Informers) -> int:
    """Seconds that pods of some owner have to be ready before the next one comes."""
    waits = [
        *(each.spec.min_ready_seconds for each in informers.of(STATEFUL_SET).items()),
        *(each.spec.min_ready_seconds for each in informers.of(DEPLOYMENT).items()),
        *(each.spec.min_ready_seconds for each in informers.of(REPLICA_SET).items()),
        *(each.spec.min_ready_seconds for each in informers.of(DAEMON_SET).items()),
    ]
    return max(waits, default=0)


def _outcome(plane: Plane, begin: Prepared, seconds: float) -> Outcome:
    informers = plane.informers
    after = Cluster(
        nodes=informers.of(NODE).items(),
        pods=informers.of(POD).items(),
        claims=informers.of(CLAIM).items(),
        volumes=informers.of(VOLUME).items(),
        capacities=informers.of(STORAGE_CAPACITY).items(),
        stateful_sets=informers.of(STATEFUL_SET).items(),
        replica_sets=informers.of(REPLICA_SET).items(),
    )
    told = Told(
        obstacles=plane.kubelets.obstacles,
        refused=plane.evictions.refused,
        why_waiting=lambda pod: _why_waiting(plane, pod),
        why_not_made=lambda kind, key: plane.hearsay.warning(_SETS[kind], key, "FailedCreate"),
    )
    compared = Comparison(begin.before, after, told)
    pending = compared.pending()
    notes = [*begin.notes]
    if seconds > LONGEST - QUIET_SECONDS:
        notes.append(f"after {LONGEST / 3600:.0f} simulated hours things still changed; this is how they were then")
    found = Outcome(
        verdict="",
        ok=True,
        seconds=round(max(seconds, 0.0), 3),
        placements=compared.placements(),
        pending=pending,
        shortfalls=compared.shortfalls(),
        blocked=compared.blocked(),
        lost=compared.lost(),
        capacity=compared.capacity(),
        difference=compared.difference(begin.drained),
        explanations=explanations(
            pending, informers.of(POD).get, lambda kind: informers.of(kind).items(), now=plane.clock.now()
        ),
        notes=tuple(notes),
    )
    return msgspec.structs.replace(found, verdict=verdict(found), ok=is_good(found))


def _why_waiting(plane: Plane, pod: Pod) -> str:
    """What the scheduler says on the pod, else what the provisioner says of its claims."""
    said = next((c.message for c in pod.status.conditions if c.type == "PodScheduled" and c.status == "False"), "")
    failed = [plane.hearsay.warning(CLAIM, key, "ProvisioningFailed") for key in pod.claim_keys]
    return said or next(filter(None, failed), "")


def _newest(inventory: Inventory) -> float:
    """The latest moment that any object speaks of: simulated time goes on from there."""
    moments = [each.metadata.creation_timestamp for kind in KINDS for each in inventory.of(kind)]
    moments += [condition.last_transition_time for pod in inventory.of(POD) for condition in pod.status.conditions]
    # Nodes renew theirs all the time, so these tell best when the cluster was listed.
    moments += [lease.spec.renew_time for lease in inventory.leases]
    # A figure that is later than the volumes made from now on would count as one that knows them.
    moments += [each.metadata.annotations.get(keys.CAPACITY_POLLED_AT) for each in inventory.of(STORAGE_CAPACITY)]
    # All are of one form, in which later moments sort later; what is no moment is passed over.
    for moment in sorted({each for each in moments if each}, reverse=True):
        try:
            return max(from_time(moment), EPOCH)
        except ValueError:
            continue
    return EPOCH
