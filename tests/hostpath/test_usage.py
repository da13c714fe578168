"""Attach, stage, publish and back: who may use a volume, where, and how many at once."""

from collections.abc import Callable
from typing import Final

import msgspec
import pytest

from mooring.csi.contract import Code, DriverError
from mooring.hostpath.records import (
    Attachment,
    HostpathSettings,
    PoolKind,
    Publication,
    Staging,
    VolumePhase,
    VolumeRecord,
    central,
)
from mooring.hostpath.usage import (
    attached,
    check_ready,
    check_unused,
    detached,
    published,
    staged,
    unpublished,
    unstaged,
)
from support.builders.hostpath import ALONE, BLOCK, GIB, MOUNT, SHARED

NODES: Final = central({"n1": {"zone": "a"}, "n2": {"zone": "a"}, "n3": {"zone": "b"}})
VOLUME: Final = VolumeRecord(
    "v1", "pvc-1", GIB, block=False, pool="default", kind=PoolKind.STRIPED, segments={"zone": "a"}
)
ON_N1: Final = Attachment("n1", MOUNT, read_only=False)
STAGED: Final = Staging("n1", "/staging", MOUNT)
SHOWN: Final = Publication("n1", "/pod", MOUNT, read_only=False)


def used(volume: VolumeRecord = VOLUME, **uses: object) -> VolumeRecord:
    return msgspec.structs.replace(volume, **uses)


def attach(volume: VolumeRecord, attachment: Attachment, *, already: int = 0, limit: int = 0) -> VolumeRecord:
    return attached(
        volume, attachment, NODES, HostpathSettings(attach=True, max_volumes_per_node=limit), already=already
    )


def stage(
    volume: VolumeRecord, staging: Staging, *, needs_attach: bool = False, already: int = 0, limit: int = 0
) -> VolumeRecord:
    return staged(
        volume, staging, NODES, HostpathSettings(attach=needs_attach, max_volumes_per_node=limit), already=already
    )


def publish(volume: VolumeRecord, publication: Publication, staging: str = "/staging") -> VolumeRecord:
    return published(volume, publication, staging=staging, layout=NODES)


def test_there_and_back_leaves_nothing() -> None:
    there = publish(stage(attach(VOLUME, ON_N1), STAGED, needs_attach=True), SHOWN)
    assert there.nodes() == {"n1"}
    assert detached(unstaged(unpublished(there, "n1", "/pod"), "n1", "/staging"), "n1") == VOLUME


@pytest.mark.parametrize(
    "again",
    [
        pytest.param(lambda v: attach(v, ON_N1), id="attach"),
        pytest.param(lambda v: stage(v, STAGED), id="stage"),
        pytest.param(lambda v: publish(v, SHOWN), id="publish"),
        pytest.param(lambda v: unpublished(v, "n1", "/elsewhere"), id="unpublish what is not there"),
        pytest.param(lambda v: unpublished(v, "n2", "/pod"), id="unpublish on another node"),
        pytest.param(lambda v: unstaged(v, "n1", "/elsewhere"), id="unstage what is not there"),
        pytest.param(lambda v: detached(v, "n2"), id="detach from another node"),
    ],
)
def test_asking_again_changes_nothing(again: Callable[[VolumeRecord], VolumeRecord]) -> None:
    volume = used(attached=(ON_N1,), staged=(STAGED,), published=(SHOWN,))
    assert again(volume) == volume


@pytest.mark.parametrize(
    ("refused", "code", "words"),
    [
        pytest.param(lambda: attach(VOLUME, Attachment("n9", MOUNT, False)), Code.NOT_FOUND, "node n9", id="no node"),
        pytest.param(
            lambda: attach(VOLUME, Attachment("n3", MOUNT, False)),
            Code.FAILED_PRECONDITION,
            "cannot be reached from node n3",
            id="attach out of reach",
        ),
        pytest.param(
            lambda: attach(used(attached=(ON_N1,)), Attachment("n1", MOUNT, True)),
            Code.ALREADY_EXISTS,
            "in another way",
            id="attached read-write, wanted read-only",
        ),
        pytest.param(
            lambda: attach(used(attached=(ON_N1,)), Attachment("n2", MOUNT, False)),
            Code.FAILED_PRECONDITION,
            "is published to node n1",
            id="a second node",
        ),
        pytest.param(
            lambda: attach(VOLUME, Attachment("n1", BLOCK, False)),
            Code.FAILED_PRECONDITION,
            "the volume is a mount volume",
            id="block on a mount volume",
        ),
        pytest.param(
            lambda: attach(VOLUME, ON_N1, already=1, limit=1),
            Code.RESOURCE_EXHAUSTED,
            "node n1 already has 1 volumes",
            id="one too many attached",
        ),
        pytest.param(
            lambda: stage(VOLUME, STAGED, already=1, limit=1),
            Code.RESOURCE_EXHAUSTED,
            "node n1 already has 1 volumes",
            id="one too many staged",
        ),
        pytest.param(
            lambda: stage(VOLUME, STAGED, needs_attach=True),
            Code.FAILED_PRECONDITION,
            "is not published to node n1",
            id="staged before attached",
        ),
        pytest.param(
            lambda: stage(used(staged=(STAGED,)), Staging("n1", "/other", MOUNT)),
            Code.FAILED_PRECONDITION,
            "is staged at /staging",
            id="staged elsewhere on the node",
        ),
        pytest.param(
            lambda: stage(used(staged=(STAGED,)), Staging("n1", "/staging", SHARED)),
            Code.ALREADY_EXISTS,
            "in another way",
            id="staged there for another mode",
        ),
        pytest.param(
            lambda: stage(VOLUME, Staging("n1", "staging", MOUNT)),
            Code.INVALID_ARGUMENT,
            "not an absolute path",
            id="relative staging path",
        ),
        pytest.param(
            lambda: stage(VOLUME, Staging("n3", "/staging", MOUNT)),
            Code.FAILED_PRECONDITION,
            "cannot be reached",
            id="stage out of reach",
        ),
        pytest.param(
            lambda: publish(VOLUME, SHOWN),
            Code.FAILED_PRECONDITION,
            "is not staged at /staging",
            id="published before staged",
        ),
        pytest.param(
            lambda: publish(used(staged=(STAGED,)), SHOWN, staging=""),
            Code.FAILED_PRECONDITION,
            "is not staged at any path",
            id="published without a staging path",
        ),
        pytest.param(
            lambda: publish(used(staged=(STAGED,)), Publication("n1", "pod", MOUNT, False)),
            Code.INVALID_ARGUMENT,
            "not an absolute path",
            id="relative target",
        ),
        pytest.param(
            lambda: publish(used(staged=(STAGED,), published=(SHOWN,)), Publication("n1", "/pod", MOUNT, True)),
            Code.ALREADY_EXISTS,
            "in another way",
            id="published there read-write, wanted read-only",
        ),
        pytest.param(
            lambda: publish(
                used(staged=(STAGED,), published=(Publication("n1", "/one", ALONE, False),)),
                Publication("n1", "/two", MOUNT, False),
            ),
            Code.FAILED_PRECONDITION,
            "has a single writer and is published at /one",
            id="beside a single writer",
        ),
        pytest.param(
            lambda: publish(
                used(staged=(STAGED,), published=(SHOWN,)),
                Publication("n1", "/two", ALONE, False),
            ),
            Code.FAILED_PRECONDITION,
            "has a single writer",
            id="a single writer beside another",
        ),
        pytest.param(
            lambda: unstaged(used(staged=(STAGED,), published=(SHOWN,)), "n1", "/staging"),
            Code.FAILED_PRECONDITION,
            "is still published on node n1",
            id="unstaged while published",
        ),
        pytest.param(
            lambda: detached(used(attached=(ON_N1,), staged=(STAGED,)), "n1"),
            Code.FAILED_PRECONDITION,
            "is still staged on node n1",
            id="detached while staged",
        ),
        pytest.param(
            lambda: detached(used(attached=(ON_N1,), staged=(STAGED,)), ""),
            Code.FAILED_PRECONDITION,
            "is still staged on node n1",
            id="detached everywhere while staged",
        ),
        pytest.param(
            lambda: check_unused(used(staged=(STAGED,))), Code.FAILED_PRECONDITION, "in use on node n1", id="in use"
        ),
        pytest.param(
            lambda: check_ready(used(phase=VolumePhase.CREATING)), Code.ABORTED, "still creating", id="not ready"
        ),
    ],
)
def test_refusals(refused: Callable[[], object], code: Code, words: str) -> None:
    with pytest.raises(DriverError) as caught:
        refused()
    assert caught.value.code is code
    assert words in caught.value.message


def test_shared_volumes_are_attached_to_many_nodes() -> None:
    first = attach(VOLUME, Attachment("n1", SHARED, False))
    both = attach(first, Attachment("n2", SHARED, False))
    assert both.nodes() == {"n1", "n2"}
    assert both.to_csi().published_on == ("n1", "n2")
    assert detached(both, "") == VOLUME


def test_several_pods_of_a_node_may_share_a_volume() -> None:
    volume = publish(used(staged=(STAGED,)), SHOWN)
    assert len(publish(volume, Publication("n1", "/pod-2", MOUNT, read_only=True)).published) == 2


def test_what_a_node_has_already_it_keeps_at_its_limit() -> None:
    volume = used(attached=(ON_N1,), staged=(STAGED,))
    assert attach(volume, ON_N1, already=1, limit=1) == volume
    assert stage(volume, STAGED, already=1, limit=1) == volume
    assert stage(used(attached=(ON_N1,)), STAGED, needs_attach=True, already=1, limit=1) == volume


def test_unused_volume_may_be_deleted() -> None:
    check_unused(VOLUME)
    check_ready(VOLUME)
