"""Kubernetes' tables for finding a volume: `index_test.go`, with its fixtures."""

from functools import partial
from typing import Any

import pytest

from mooring.api.views.storage import Volume
from mooring.pvcontroller.cache import BindingCache
from mooring.volumes.matching import exact_size, first_mismatch
from support.builders import a_claim, a_volume, claim_ref

RWO, ROX, RWX = "ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany"

two = partial(a_volume, storage_class="", access_modes=[RWO, ROX])
three = partial(a_volume, storage_class="", access_modes=[RWO, ROX, RWX])
one = partial(a_volume, storage_class="", access_modes=[RWO])
claim = partial(a_claim, storage_class="", access_modes=[ROX, RWO])
EXISTS = {"matchLabels": {"should-exist": "true"}}
LABELS = {"should-exist": "true"}

VOLUMES = (
    two(name="gce-pd-1", size="1G", phase="Bound", claim_ref=claim_ref(name="taken", uid="taken")),
    two(name="gce-pd-5", size="5G"),
    two(name="gce-pd-10", size="10G"),
    two(name="gce-pd-20", size="20G", phase="Bound", claim_ref=claim_ref(name="taken", uid="taken")),
    two(name="gce-pd-vac-silver1", size="100G", attributes_class="silver"),
    two(name="affinity-pv", size="100G", storage_class="wait"),
    three(name="nfs-1", size="1G"),
    three(name="nfs-5", size="5G"),
    three(name="nfs-10", size="10G"),
    three(name="large-200", size="200E", storage_class="large"),
    three(name="large-800", size="800E", storage_class="large"),
    one(name="gce-pd-2", size="20000G", labels=LABELS),
    one(name="silver1", size="10000G", storage_class="silver", labels=LABELS),
    one(name="silver2", size="100G", storage_class="silver"),
    one(name="gold", size="50G", storage_class="gold"),
)


def found(given: dict[str, Any], *volumes: Volume, delayed: bool = False) -> str | None:
    cache = BindingCache(lambda _: ())
    for volume in volumes or VOLUMES:
        cache.volumes.observe(None, volume)
    best = cache.best_volume(claim(**given), delayed=delayed)
    return None if best is None else best.name


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param({"size": "8G"}, "gce-pd-10", id="match-gce-10"),
        pytest.param({"size": "5G", "access_modes": [ROX, RWO, RWX]}, "nfs-5", id="match-nfs-5"),
        pytest.param({"size": "1G"}, "gce-pd-5", id="skip-1g-bound-volume"),
        pytest.param({"size": "999G"}, None, id="no-match"),
        pytest.param({"size": "999G", "selector": {"matchLabels": {"no": "x"}}}, None, id="no-match-due-to-label"),
        pytest.param({"size": "20000G", "selector": EXISTS}, None, id="no-match-due-to-size-with-label-selector"),
        pytest.param(
            {"size": "20000G", "selector": EXISTS, "access_modes": [RWO]}, "gce-pd-2", id="match-with-label-selector"
        ),
        pytest.param({"size": "8G", "attributes_class": ""}, "gce-pd-10", id="match-with-empty-vac"),
        pytest.param({"size": "1G", "attributes_class": "silver"}, "gce-pd-vac-silver1", id="match-with-vac"),
        pytest.param({"size": "1G", "attributes_class": "unknown"}, None, id="no-match-vac-nonexisting"),
        pytest.param(
            {"size": "1G", "storage_class": "silver", "selector": EXISTS, "access_modes": [RWO]},
            "silver1",
            id="match-with-class-and-labels",
        ),
        pytest.param(
            {"size": "1G", "storage_class": "silver", "access_modes": [RWO]}, "silver2", id="match-with-class"
        ),
        pytest.param({"size": "1E", "storage_class": "large"}, "large-200", id="match-very-large"),
        pytest.param({"size": "800E", "storage_class": "large"}, "large-800", id="match-exact-extremely-large"),
        pytest.param({"size": "950E", "storage_class": "large"}, None, id="no-match-way-too-large"),
    ],
)
@pytest.mark.req("T42.PC31")
def test_match_volume(given: dict[str, Any], expected: str | None) -> None:
    assert found(given) == expected


@pytest.mark.req("T42.PC31")
def test_matching_with_bound_volumes() -> None:
    bound = one(name="first", size="1G", phase="Bound", claim_ref=claim_ref(name="x", uid="x"))
    assert found({"size": "1G", "access_modes": [RWO]}, bound, one(name="second", size="1G")) == "second"


@pytest.mark.req("T42.PC8")
def test_best_match_delayed() -> None:
    assert found({"size": "8G"}, delayed=True) is None


@pytest.mark.parametrize(
    ("requested", "offered", "fits"),
    [
        pytest.param("Block", "Filesystem", False, id="block, file system"),
        pytest.param("Filesystem", "Block", False, id="file system, block"),
        pytest.param("Block", None, False, id="block, defaulted"),
        pytest.param(None, "Block", False, id="defaulted, block"),
        pytest.param("Block", "Block", True, id="block, block"),
        pytest.param("Filesystem", "Filesystem", True, id="file system, file system"),
        pytest.param("Filesystem", None, True, id="file system, defaulted"),
        pytest.param(None, "Filesystem", True, id="defaulted, file system"),
        pytest.param(None, None, True, id="defaulted, defaulted"),
    ],
)
@pytest.mark.req("T42.PC31")
def test_volume_modes(requested: str | None, offered: str | None, fits: bool) -> None:
    asks = {} if requested is None else {"mode": requested}
    offers = {} if offered is None else {"mode": offered}
    assert (found({"size": "8G", **asks}, two(name="volume", size="10G", **offers)) == "volume") == fits


@pytest.mark.parametrize("deleting", [pytest.param(False, id="stays"), pytest.param(True, id="being deleted")])
@pytest.mark.req("T42.PC31")
def test_volume_that_is_being_deleted_is_not_found(deleting: bool) -> None:
    assert (found({"size": "1G"}, two(name="volume", deleting=deleting)) is None) == deleting


@pytest.mark.parametrize(
    ("reserved", "expected"),
    [
        pytest.param(None, "pv-1Gi", id="none is reserved"),
        pytest.param(("pv-1Gi", "other"), "pv-5Gi", id="1Gi is another's"),
        pytest.param(("pv-8Gi", "claim-1"), "pv-8Gi", id="8Gi is ours, although larger"),
        pytest.param(("pv-1Mi", "claim-1"), "pv-1Gi", id="1Mi is ours, but too small"),
        pytest.param(("pv-rox", "claim-1"), "pv-1Gi", id="one of ours lacks the mode"),
    ],
)
@pytest.mark.req("T42.PC32")
def test_reserved_volumes(reserved: tuple[str, str] | None, expected: str) -> None:
    def volume(name: str, size: str, modes: list[str]) -> Volume:
        reference = claim_ref(name=reserved[1]) if reserved is not None and reserved[0] == name else None
        return a_volume(name=name, size=size, storage_class="", access_modes=modes, claim_ref=reference)

    volumes = [volume(f"pv-{size}", size, [RWO]) for size in ("1Gi", "5Gi", "8Gi", "1Mi")]
    volumes.append(volume("pv-rox", "1Gi", [ROX]))
    assert found({"size": "1Gi", "access_modes": [RWO]}, *volumes) == expected


@pytest.mark.req("T42.PC31")
def test_the_index_says_what_a_walk_over_all_volumes_says() -> None:
    """Every size, mode and class there is, against the matcher on every volume of the plainest shape that does."""
    for size in ("1G", "5G", "7G", "60G", "300E"):
        for modes in ([RWO], [ROX], [RWO, RWX]):
            for storage_class in ("", "silver", "large"):
                expected = claim(size=size, access_modes=modes, storage_class=storage_class)
                fitting = [volume for volume in VOLUMES if first_mismatch(expected, volume) is None]
                best = min(fitting, key=lambda v: (len(v.spec.access_modes), _size(v), v.name), default=None)
                given = {"size": size, "access_modes": modes, "storage_class": storage_class}
                assert found(given) == (None if best is None else best.name), given


def _size(volume: Volume) -> int:
    return exact_size(volume.size)
