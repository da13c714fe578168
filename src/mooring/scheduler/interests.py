"""What a pod waits for, in words that a change can be about: its claims, their volumes, classes and drivers.

Written down when the pod is parked, from the same state of the cluster that the decision was made on. The queue files
waiting pods under these topics, so that an event about one volume or class looks up the pods it can help instead of
asking all that wait. They stay true while the pod waits: only a claim, a class or a volume that is itself among the
topics could add to them, and that wakes the pod. Pure.
"""

from collections.abc import Iterator
from contextlib import suppress
from typing import Final, NamedTuple

from mooring.api.label_selector import SelectorError
from mooring.api.quantity import QuantityError
from mooring.api.views.claim import Claim
from mooring.api.views.pod import Pod
from mooring.volumes.clean_claims import is_clean
from mooring.volumes.in_tree import plugin_of
from mooring.volumes.matching import Needs, needs_of
from mooring.volumes.pod_claims import PodClaims
from mooring.volumes.state import VolumeState

#: Kinds of topics.
CLAIM: Final = "PersistentVolumeClaim"
VOLUME: Final = "PersistentVolume"
CLASS: Final = "StorageClass"
DRIVER: Final = "CSIDriver"
#: One of Kubernetes' old disk plugins, which a node may leave to a driver.
PLUGIN: Final = "in-tree plugin"


class Topic(NamedTuple):
    """Something that a pod may wait for and a change may be about."""

    kind: str
    #: As objects have their keys: `namespace/name`, or the name of what is in no namespace.
    name: str


class Interests(NamedTuple):
    """What one pod waits for."""

    topics: frozenset[Topic] = frozenset()
    #: Its claims that a free volume would do for, also those that would be unbound for its sake; none while the pod is
    #: refused because of its claims.
    unbound: tuple[Needs, ...] = ()


#: Of a pod without volumes.
NO_INTERESTS: Final = Interests()


def interests_of(pod: Pod, claims: PodClaims | str, volumes: VolumeState) -> Interests:
    """`claims` are the pod's, as `volumes` sorts them."""
    if not pod.spec.volumes:
        return NO_INTERESTS
    sorted_claims = None if isinstance(claims, str) else claims
    topics = {Topic(DRIVER, driver) for driver in volumes.possible_drivers(pod, sorted_claims)}
    for key in pod.claim_keys:
        topics.add(Topic(CLAIM, key))
        claim = volumes.claim(key)
        if claim is not None:
            topics.update(_beyond(claim, volumes))
    return Interests(
        frozenset(topics), () if sorted_claims is None else (*sorted_claims.unbound, *_clean(sorted_claims))
    )


def _clean(claims: PodClaims) -> Iterator[Needs]:
    """What claims ask for that are bound and could do without their volumes, since nobody has used them: whether they
    are unbound is decided when the pod is looked at again (`unbinding`)."""
    for claim in claims.bound:
        if is_clean(claim):
            with suppress(SelectorError, QuantityError):
                # SEEN: what cannot be understood keeps the volume it has.
                yield needs_of(claim)


def _beyond(claim: Claim, volumes: VolumeState) -> Iterator[Topic]:
    """What a claim depends on besides itself."""
    name = claim.spec.volume_name
    if name:
        yield Topic(VOLUME, name)
        volume = volumes.volume(name)
        plugin = None if volume is None else plugin_of(volume.spec)
        if plugin is not None:
            yield Topic(PLUGIN, plugin.name)
    if not claim.fully_bound or is_clean(claim):
        yield Topic(CLASS, claim.storage_class)
        maker = volumes.provisioners.provisioner(claim.storage_class)
        if maker:
            yield Topic(DRIVER, maker)
