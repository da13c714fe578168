"""Objects in, rows out, and only what changed."""

import msgspec

from mooring.api import well_known
from mooring.api.kinds import NODE
from mooring.controllers.node_health import GRACE_SECONDS
from mooring.web.picture import Changes, Picture, TimelineRow
from mooring.web.rows import VolumeRow
from support.builders import a_capacity, a_claim, a_class, a_node, a_pod, a_volume, claim_ref, node_body

HOLD = {"namespace": "kube-system", "name": "hold-claim-1-uid"}
ROLLBACK = {"namespace": "kube-system", "name": "rollback-claim-1-uid"}


def row_of(changes: Changes, table: str) -> object:
    [row] = changes.rows[table]
    return row


def volume_row(picture: Picture) -> VolumeRow:
    [row] = picture.all_rows()["volumes"]
    assert isinstance(row, VolumeRow)
    return row


def test_change_is_sent_once() -> None:
    picture = Picture()
    node = a_node()
    picture.observe_node(None, node)
    assert set(picture.changes().rows) == {"nodes"}
    assert not picture.changes()


def test_a_change_that_shows_nothing_new_is_none() -> None:
    picture = Picture()
    picture.observe_node(None, a_node(version="1"))
    picture.changes()
    picture.observe_node(a_node(version="1"), a_node(version="2"))
    assert not picture.changes()


def test_what_is_gone_is_named() -> None:
    picture = Picture()
    picture.observe_pod(None, a_pod())
    picture.changes()
    picture.observe_pod(a_pod(), None)
    assert picture.changes().gone == {"pods": ["default/pod-1"]}
    assert picture.all_rows()["pods"] == []


def test_object_created_and_deleted_between_batches_is_not_sent() -> None:
    picture = Picture()
    picture.observe_pod(None, a_pod())
    picture.observe_pod(a_pod(), None)
    assert not picture.changes()


def test_a_volume_moves_when_its_node_comes() -> None:
    picture = Picture()
    picture.observe_volume(None, a_volume(node="node-1"), now=0.0)
    picture.changes()
    assert volume_row(picture).place.level == "nowhere"
    picture.observe_node(None, a_node(name="node-1"))
    assert set(picture.changes().rows) == {"nodes", "volumes"}
    assert volume_row(picture).place.node == "node-1"


def test_a_class_says_from_which_pool_its_volumes_are() -> None:
    picture = Picture()
    source = {"csi": {"driver": "csi.example.com", "volumeHandle": "v"}}
    picture.observe_volume(None, a_volume(storage_class="fast", source=source), now=0.0)
    picture.observe_capacity(None, a_capacity(storage_class="fast", topology={}, capacity="7Gi"), now=0.0)
    picture.changes()
    offered = a_class(name="fast", provisioner="csi.example.com", annotations={well_known.CAPACITY_POOL: "nvme"})
    picture.observe_class(None, offered)
    changes = picture.changes()
    assert {type(row).__name__: getattr(row, "pool", "") for rows in changes.rows.values() for row in rows} == {
        "PoolRow": "nvme",
        "VolumeRow": "nvme",
    }


def test_a_held_volume_names_the_claim_it_is_held_for() -> None:
    picture = Picture()
    picture.observe_claim(None, a_claim(name="claim-1"))
    picture.observe_volume(None, a_volume(claim_ref=HOLD), now=0.0)
    picture.changes()
    row = volume_row(picture)
    assert (row.state, row.claim) == ("held", "default/claim-1")


def test_a_claim_elsewhere_holds_nothing() -> None:
    picture = Picture(hold_namespace="storage")
    picture.observe_volume(None, a_volume(claim_ref=HOLD), now=0.0)
    picture.changes()
    assert volume_row(picture).state == "bound"


def test_a_volume_its_claim_has_left_is_released() -> None:
    picture = Picture()
    picture.observe_volume(None, a_volume(claim_ref=claim_ref(uid="u"), phase="Released"), now=0.0)
    picture.changes()
    assert volume_row(picture).state == "released"


def timeline_rows(picture: Picture) -> list[TimelineRow]:
    return [row for row in picture.changes().rows.get("happenings", ()) if isinstance(row, TimelineRow)]


def test_marks_make_a_timeline() -> None:
    picture = Picture()
    picture.live = True
    picture.observe_claim(None, a_claim(name="claim-1"))
    free, held = a_volume(), a_volume(claim_ref=HOLD)
    going = a_volume(claim_ref=ROLLBACK)
    given = a_volume(claim_ref=claim_ref(uid="claim-1-uid"))
    for before, after in ((None, free), (free, held), (held, given), (None, held), (held, going), (going, None)):
        picture.observe_volume(before, after, now=5.0)
    shown = [(row.lane, row.reason) for row in timeline_rows(picture)]
    assert shown == [
        ("hold", "Held"),
        ("hold", "Committed"),
        ("hold", "Held"),
        ("rollback", "RollingBack"),
        ("rollback", "RolledBack"),
    ]


def test_what_was_there_before_is_no_news() -> None:
    picture = Picture()
    picture.observe_volume(None, a_volume(claim_ref=claim_ref(uid="u")), now=5.0)
    assert timeline_rows(picture) == []


def test_waiting_pods_bring_the_schedulers_last_word() -> None:
    picture = Picture()
    said = {"type": "PodScheduled", "status": "False", "message": "0/1 nodes are available"}
    picture.observe_pod(None, a_pod(conditions=(said,)))
    row = row_of(picture.changes(), "pods")
    assert (getattr(row, "waiting", None), getattr(row, "why", None)) == (True, "0/1 nodes are available")


def test_notices_come_and_go() -> None:
    picture = Picture()
    assert picture.notice("pods", "forbidden", "no")
    assert not picture.notice("pods", "forbidden", "no")
    assert picture.unreadable("pods")
    assert set(picture.changes().rows) == {"notices"}
    assert picture.notice("pods", "")
    assert picture.changes().gone == {"notices": ["pods"]}


def test_only_loading_ends_with_the_first_list() -> None:
    picture = Picture()
    picture.notice("pods", "loading")
    picture.notice("nodes", "unreachable", "gone")
    picture.loaded("pods")
    picture.loaded("nodes")
    assert [row.id for row in picture.all_rows()["notices"]] == []
    picture.changes()
    assert [row.id for row in picture.all_rows()["notices"]] == ["nodes"]


def test_a_node_is_lost_when_the_grace_period_is_over_without_another_change() -> None:
    picture = Picture()
    not_ready = {"type": "Ready", "status": "False", "lastTransitionTime": "1970-01-01T00:01:40Z"}
    picture.observe_node(None, NODE.decode(msgspec.json.encode(node_body() | {"status": {"conditions": [not_ready]}})))
    picture.pass_time(100.0 + GRACE_SECONDS)
    assert getattr(row_of(picture.changes(), "nodes"), "lost", None) is False
    picture.pass_time(101.0 + GRACE_SECONDS)
    assert getattr(row_of(picture.changes(), "nodes"), "lost", None) is True
    picture.pass_time(102.0 + GRACE_SECONDS)
    assert not picture.changes()
