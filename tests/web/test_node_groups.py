"""The endpoint for autoscalers: which node group would help the pending pods, how often it computes."""

import asyncio
from collections.abc import AsyncIterator

import aiohttp
import pytest

from mooring.api import kinds
from mooring.api.errors import Forbidden
from mooring.clock import SystemClock
from mooring.whatif import group_advisor
from mooring.whatif.group_advisor import MAX_WAITING, JsonAnswer, NodeGroupAdvisor
from support.builders import node_body
from support.fake_client import FakeClient
from support.web_scene import TOKEN, Scene, shown

HEADERS = {"Authorization": f"Bearer {TOKEN}"}
GROUP = "example.com/group"


def scene() -> Scene:
    """Volumes fit on nodes of one group only, and one pod waits for capacity."""
    made = Scene()
    made.classes()
    for name, group in (("n1", "disks"), ("n2", "diskless")):
        labels = {"kubernetes.io/hostname": name, GROUP: group}
        made.put(kinds.NODE, node_body(name=name, labels=labels))
    made.pool("n1", "2Gi")
    made.claim("data", storage_class="made", size="1Gi")
    for name in ("first", "second", "third"):
        made.claim(name, storage_class="made", size="2Gi")
        made.pod(name, claims=[name])
    return made


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


@pytest.mark.req("C24.which-group")
async def test_answer_names_group_and_number(http: aiohttp.ClientSession) -> None:
    async with shown(scene()) as address:
        url = f"{address.partition('/#')[0]}/api/node-groups"
        async with http.get(f"{url}?label={GROUP}") as refused:
            assert refused.status == 401
        async with http.get(f"{url}?label={GROUP}", headers=HEADERS) as answered:
            assert (answered.status, answered.content_type) == (200, "application/json")
            found = await answered.json()
        assert (found["ok"], found["best"], found["groups"]["disks"]["count"]) == (True, "disks", 2)
        assert found["groups"]["diskless"]["count"] == 0
        assert found["verdict"] == "All pods run with 2 nodes of disks."
        for query, text in (("", "needs label=KEY"), ("?label=none.example.com/x", "no ready node has the label")):
            async with http.get(f"{url}{query}", headers=HEADERS) as wrong:
                assert (wrong.status, text.lower() in (await wrong.json())["error"].lower()) == (400, True)
        async with http.post(url, headers=HEADERS) as written:
            assert written.status == 405


async def asked(advisor: NodeGroupAdvisor, client: FakeClient, label: str = GROUP, namespace: str = "") -> JsonAnswer:
    return await advisor.answer(client, label, namespace=namespace)


async def test_questions_at_once_and_soon_after_share_a_simulation(monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[str] = []
    which = group_advisor._which_group

    def counted(listed: object, label: str, may_go_on: object) -> JsonAnswer:
        runs.append(label)
        return which(listed, label, may_go_on)  # type: ignore[arg-type]

    monkeypatch.setattr(group_advisor, "_which_group", counted)
    advisor, client = NodeGroupAdvisor(SystemClock()), FakeClient(scene())
    answers = await asyncio.gather(*(asked(advisor, client) for _ in range(20)))
    assert {each.status for each in answers} == {200}
    assert (await asked(advisor, client)) is answers[0]
    assert runs == [GROUP]


async def test_waiting_questions_and_kept_answers_are_bounded() -> None:
    advisor, client = NodeGroupAdvisor(SystemClock()), FakeClient(scene())
    answers = await asyncio.gather(*(asked(advisor, client, f"example.com/{number}") for number in range(20)))
    assert sum(each.status == 503 for each in answers) == 20 - MAX_WAITING
    assert not advisor._under_way


async def test_answer_survives_a_client_that_goes_away() -> None:
    advisor, client = NodeGroupAdvisor(SystemClock()), FakeClient(scene())
    gone = asyncio.ensure_future(asked(advisor, client))
    stays = asyncio.ensure_future(asked(advisor, client))
    await asyncio.sleep(0)
    gone.cancel()
    assert (await stays).status == 200


async def test_page_that_ends_begins_no_further_simulation() -> None:
    advisor, client = NodeGroupAdvisor(SystemClock()), FakeClient(scene())
    advisor.close()
    assert (await asked(advisor, client)).status == 503


async def test_view_of_one_namespace_cannot_answer() -> None:
    advisor = NodeGroupAdvisor(SystemClock())
    found = await asked(advisor, FakeClient(scene()), namespace="default")
    assert (found.status, b"all pods of the cluster" in found.body) == (409, True)


async def test_kinds_that_may_not_be_listed_are_an_error() -> None:
    """An answer without some pods would be wrong."""
    client = FakeClient(scene())
    client.failures.append(Forbidden("namespaces is forbidden"))
    found = await asked(NodeGroupAdvisor(SystemClock()), client)
    assert (found.status, b"namespaces is forbidden" in found.body) == (502, True)
