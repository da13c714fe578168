"""Groups of pods, recovery plans and pools over time on the page, in a real browser."""

import json
from collections.abc import Iterator

from mooring.api import kinds, well_known
from mooring.explain.cluster_objects import EXPLAINED_KINDS, ClusterObjects
from mooring.explain.cluster_view import ClusterView
from mooring.explain.group import explain_group
from mooring.explain.recovery import recovery_plan
from mooring.explain.text import group_paragraphs
from mooring.volumes.holds.objects import STORAGE_LOST
from support.browser import Browser, Tab
from support.builders import class_body
from support.web_scene import DRIVER, Scene, grouped, shown, small

LONG_AGO = "2026-01-01T00:00:00Z"


def objects_of(scene: Scene) -> ClusterObjects:
    """What a reader of the scene may list."""
    objects = ClusterObjects(now=1.8e9)
    for kind in EXPLAINED_KINDS:
        for (plural, _, _), body in scene._objects.items():
            if plural == kind.plural:
                objects.put(kind, kind.decode(json.dumps(body).encode()))
    return objects


def lines_of(scene: Scene, group: str) -> Iterator[str]:
    """What `mooring explain podgroup/NAME` prints, without its headings and bullets."""
    report = explain_group(ClusterView(objects_of(scene)), group)
    assert report is not None
    yield report.verdict
    for paragraph in group_paragraphs(report):
        for line in paragraph.splitlines():
            if not line.endswith(":"):
                yield line.strip().removeprefix("- ")


async def cells(tab: Tab, name: str) -> object:
    row = f"#view-groups tr[data-row='default/{name}'] > *"
    return await tab.run(f"[...document.querySelectorAll({json.dumps(row)})].map((one) => one.innerText)")


async def test_groups_have_quorum_state_and_what_they_wait_for(browser: Browser) -> None:
    scene = grouped()
    async with shown(scene) as address:
        tab = await browser.tab(address)
        await tab.shows("#facts", "3 groups, 1 with held volumes")
        await tab.shows("#tab-groups", "Groups 2")
        await tab.click("#tab-groups")
        await tab.shows("#view-groups", "train")
        assert await cells(tab, "train") == [
            "train", "default", "Holding", "0 of 2 bound", "2", "1 of 2 held", "the volumes of train-2",
        ]  # fmt: skip
        assert await cells(tab, "wide") == [
            "wide", "default", "Pending", "0 of 2 bound", "2", "2 needed", "minCount (2) cannot be satisfied",
        ]  # fmt: skip
        assert await cells(tab, "runs") == ["runs", "default", "Committed", "1 of 1 bound", "1", "", ""]
        for number in (1, 2):
            name = f"scratch-{number}"
            scene.claim(name, size="10Gi", storage_class="made", volume=f"vol-{name}", bound=True)
            scene.made_volume(f"vol-{name}", node="node-2", claim=name, size="10Gi")
            scene.member(f"train-{number}", group="train", claims=(name,), node="node-2", phase="Running")
        await tab.shows("#view-groups [data-row='default/train']", "Committed")
        assert await cells(tab, "train") == ["train", "default", "Committed", "2 of 2 bound", "2", "", ""]


async def test_a_group_is_explained_as_the_command_explains_it(browser: Browser) -> None:
    scene = grouped()
    async with shown(scene) as address:
        tab = await browser.tab(address)
        await tab.shows("#facts", "nodes")
        await tab.click("#tab-groups")
        for name in ("wide", "train"):
            await tab.click(f"#view-groups [data-id='default/{name}']")
            await tab.shows("#inspector .says", f"default/{name}")
            text = " ".join((await tab.text("#inspector")).split())
            for line in lines_of(scene, f"default/{name}"):
                for part in line.split(": "):
                    assert part.rsplit("/")[-1] in text, line
        await tab.shows("#inspector", "Held volumes")
        await tab.click("#inspector .objects .link")
        await tab.shows("#inspector", "Held for group")
        await tab.click("#inspector .objects .link")
        await tab.shows("#inspector h2", "train")


async def test_held_volumes_are_listed_with_their_group(browser: Browser) -> None:
    async with shown(grouped()) as address:
        tab = await browser.tab(f"{address}/volumes?state=held")
        await tab.shows("#view-volumes", "vol-scratch-1")
        row = await tab.run(
            "[...document.querySelectorAll('[data-row=vol-scratch-1] > *')].map((one) => one.innerText).slice(0, 8)"
        )
        assert row == [
            "vol-scratch-1",
            "held",
            "10Gi",
            "made",
            "zone-a",
            "node-2",
            "default/scratch-1",
            "default/train",
        ]


async def test_a_server_without_pod_groups_is_an_ordinary_one(browser: Browser) -> None:
    async with shown(small(), not_served=("podgroups",)) as address:
        tab = await browser.tab(address)
        await tab.shows("#tree", "node-1")
        await tab.click("#tab-groups")
        await tab.shows("#view-groups", "There are no PodGroups.")
        assert await tab.text("#notices") == ""
        await tab.click("[data-pod='default/analytics']")
        await tab.shows("#inspector .says", "would not fit")


def lost() -> Scene:
    """A deleted node whose storage is confirmed to be lost, and a node that is not ready beyond the grace period."""
    scene = small()
    opted = {well_known.LOST_STORAGE: "confirmed"}
    scene.put(kinds.STORAGE_CLASS, class_body(name="local-made", provisioner=DRIVER, annotations=opted))
    by_controller = {well_known.BIND_COMPLETED: "yes", well_known.BOUND_BY_CONTROLLER: "yes"}
    bound = {"volume": "vol-gone", "bound": True, "annotations": by_controller}
    scene.claim("gone", size="5Gi", storage_class="local-made", **bound)
    confirmed = {STORAGE_LOST: "true"}
    of_node = {"storage_class": "local-made", "reclaim": "Delete", "annotations": confirmed}
    scene.made_volume("vol-gone", node="node-9", claim="gone", size="5Gi", **of_node)
    scene.node("node-4", zone="zone-b", lost_since=LONG_AGO)
    scene.pool("node-4", "40Gi")
    scene.claim("kept", size="5Gi", storage_class="made", volume="vol-kept", bound=True)
    scene.made_volume("vol-kept", node="node-4", claim="kept", size="5Gi")
    return scene


async def test_a_plan_for_lost_nodes_is_shown_and_nothing_done(browser: Browser) -> None:
    scene = lost()
    plan = recovery_plan(objects_of(scene))
    async with shown(scene) as address:
        tab = await browser.tab(address)
        await tab.shows("#verdict", "One node is lost. Two volumes are out of every node's reach.")
        await tab.click("[data-row='node:node-4']")
        await tab.shows("#inspector dl", "lost: not ready beyond the grace period")
        await tab.shows("#inspector", "45Gi out of reach")
        await tab.click("#inspector .ask")
        await tab.shows("#view-recovery .says", plan.verdict)
        text = await tab.text("#view-recovery")
        assert [item.claim for item in plan.items] == ["default/gone"]
        for item in plan.items:
            for part in (item.claim, item.loses, item.confirmed_by, *item.steps):
                assert part in text
        assert [(each.volume, each.code) for each in plan.refused] == [("vol-kept", "ClassNotOptedIn")]
        for refused in plan.refused:
            for part in (refused.volume, refused.code, refused.reason):
                assert part in text
        scene.node("node-4", zone="zone-b")
        await tab.shows("#verdict", "One volume is out of every node's reach.")
        await tab.until("!document.querySelector('#view-recovery').innerText.includes('vol-kept')")


async def test_capacity_of_a_lost_node_is_not_free(browser: Browser) -> None:
    async with shown(lost()) as address:
        tab = await browser.tab(address)
        await tab.shows("[data-row='node:node-4']", "45Gi out of reach")
        await tab.shows("[data-row='z:zone-b']", "20Gi free")


async def test_a_plan_needs_all_kinds(browser: Browser) -> None:
    async with shown(lost(), refused=("csinodes",)) as address:
        tab = await browser.tab(f"{address}/recovery")
        await tab.shows("#view-recovery .says", "A recovery cannot be planned without all csinodes")
        tab.errors = [error for error in tab.errors if "409" not in error]


async def test_a_pool_has_a_line_of_what_was_free(browser: Browser) -> None:
    scene = small()
    async with shown(scene) as address:
        tab = await browser.tab(address)
        await tab.shows("#facts", "nodes")
        await tab.click("[data-row='node:node-2']")
        await tab.shows("#inspector", "100Gi free")
        assert await tab.run("document.querySelector('.spark') === null")
        scene.pool("node-2", "70Gi")
        await tab.shows("#inspector", "70Gi free")
        await tab.until("document.querySelector('#inspector .spark')")
        label = "Free during the last 15 minutes: between 70Gi and 100Gi, now 70Gi"
        assert await tab.run("document.querySelector('.spark').ariaLabel") == label
        # A tab that is opened later has what the first one saw.
        other = await browser.tab(f"{address}/topology?open=node/node-2")
        await other.until("document.querySelector('#inspector .spark')")
        assert await other.run("document.querySelector('.spark').ariaLabel") == label
