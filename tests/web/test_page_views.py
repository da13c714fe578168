"""Tables, filters, links and exports of the page in a real browser."""

import csv
import json
from pathlib import Path

import pytest

from mooring.api import kinds, well_known
from support.browser import Browser, Tab
from support.builders import capacity_body, class_body
from support.web_scene import TOKEN, Scene, grouped, shown, small


async def column(tab: Tab, view: str, key: str) -> object:
    """The texts of a column, without its heading."""
    cells = f"#view-{view} tbody .c-{key}"
    return await tab.run(f"[...document.querySelectorAll({json.dumps(cells)})].map((one) => one.innerText)")


async def choose(tab: Tab, name: str, value: str) -> None:
    await tab.run(
        f"(() => {{ const e = document.querySelector('#filter-{name}'); e.value = {json.dumps(value)};"
        " e.dispatchEvent(new Event('change')); })()"
    )


def two_classes() -> Scene:
    """`small`, and a second class in zone-b."""
    scene = small()
    scene.put(kinds.STORAGE_CLASS, class_body(name="slow", provisioner="csi.example.com"))
    scene.pool("node-3", "50Gi", storage_class="slow")
    scene.claim("cold", size="5Gi", storage_class="slow", volume="vol-cold", bound=True)
    scene.made_volume("vol-cold", node="node-3", claim="cold", size="5Gi", storage_class="slow")
    return scene


async def test_claims_have_a_table_that_opens_them(browser: Browser) -> None:
    scene = small()
    async with shown(scene) as address:
        tab = await browser.tab(address)
        await tab.shows("#facts", "nodes")
        await tab.click("#tab-claims")
        await tab.shows("#view-claims tbody", "huge")
        assert await column(tab, "claims", "name") == ["log", "huge", "data"]
        assert await column(tab, "claims", "state") == ["held", "pending", "bound"]
        assert await column(tab, "claims", "where") == ["node-1", "", "node-1"]
        assert await column(tab, "claims", "pods") == ["", "analytics", "web"]
        await tab.click("#view-claims [data-id='default/huge']")
        await tab.shows("#inspector .kind", "PersistentVolumeClaim")
        scene.claim("huge", size="500Gi", storage_class="made", volume="vol-huge", bound=True)
        await tab.until(
            "[...document.querySelectorAll('#view-claims .c-state')].filter((e) => "
            "e.innerText === 'bound').length === 2"
        )
        assert await column(tab, "claims", "name") == ["log", "data", "huge"]


async def test_rows_of_a_table_are_walked_with_arrows(browser: Browser) -> None:
    async with shown(small()) as address:
        tab = await browser.tab(address)
        await tab.shows("#facts", "nodes")
        await tab.click("#tab-claims")
        await tab.run("document.querySelector('#view-claims tbody [tabindex=\"0\"]').focus()")
        await tab.press("ArrowDown", "ArrowDown")
        assert await tab.run("document.activeElement.dataset.id") == "default/data"
        await tab.press("Home", "Enter")
        await tab.shows("#inspector h2", "log")
        await tab.press("Escape")
        assert await tab.run("document.activeElement.dataset.id") == "default/log"
        await tab.run("document.querySelector('#tab-claims').focus()")
        await tab.press("ArrowRight")
        assert await tab.run("document.activeElement.id") == "tab-volumes"
        assert await tab.run("document.querySelector('#view-volumes').hidden") is False


#: Filters, and what they leave of claims, volumes and nodes.
FILTERED: tuple[tuple[dict[str, str], list[str], list[str], list[str]], ...] = (
    ({"class": "slow"}, ["cold"], ["vol-cold"], ["node-3"]),
    ({"zone": "zone-b"}, ["cold"], ["vol-cold", "disk-3"], ["node-3"]),
    ({"state": "held"}, ["log"], ["vol-log"], ["node-1"]),
    ({"state": "free"}, [], ["disk-3"], ["node-3"]),
    ({"class": "made", "state": "bound"}, ["data"], ["vol-data"], ["node-1"]),
)


async def test_filters_by_class_zone_and_state(browser: Browser) -> None:
    rows = "[...document.querySelectorAll('#tree [data-row^=\"node:\"] .name')].map((one) => one.innerText)"
    async with shown(two_classes()) as address:
        tab = await browser.tab(address)
        await tab.shows("#tree", "node-3")
        for filters, claims, volumes, nodes in FILTERED:
            await tab.click("#tab-topology")
            for name, value in filters.items():
                await choose(tab, name, value)
            assert await tab.run(rows) == nodes
            await tab.click("#tab-claims")
            assert await column(tab, "claims", "name") == claims
            await tab.click("#tab-volumes")
            assert await column(tab, "volumes", "name") == volumes
            await tab.click(".reset")
            await tab.shows("#view-volumes", "vol-log")
            assert len(str(await column(tab, "volumes", "name")).split(",")) == 4


async def test_capacity_of_nodes_that_do_not_exist_is_not_shown(browser: Browser) -> None:
    scene = small()
    template = {well_known.CAPACITY_NODE_GROUP: "large"}
    body = capacity_body(name="template", storage_class="made", topology={}, capacity="999Gi", labels=template)
    scene.put(kinds.STORAGE_CAPACITY, body)
    async with shown(scene) as address:
        tab = await browser.tab(address)
        await tab.shows("#tree", "node-3")
        assert "Whole cluster" not in await tab.text("#tree")
        assert "999Gi" not in await tab.text("body")


async def test_the_address_keeps_what_is_shown_and_back_returns(browser: Browser) -> None:
    async with shown(grouped()) as address:
        tab = await browser.tab(address)
        await tab.shows("#tree", "node-1")
        await tab.click("#tab-claims")
        await choose(tab, "class", "made")
        await tab.click("#view-claims [data-id='default/huge']")
        await tab.click("#inspector .objects .link")
        await tab.shows("#inspector .kind", "Pod")
        link = str(await tab.run("location.hash"))
        assert link == "#/claims?class=made&open=pod/default/analytics"
        await tab.run("history.back()")
        await tab.shows("#inspector .kind", "PersistentVolumeClaim")
        await tab.run("history.back()")
        await tab.until("document.querySelector('#inspector').hidden")
        assert await tab.run("document.querySelector('#filter-class').value") == "made"
        await tab.run("history.back()")
        await tab.until("document.querySelector('#filter-class').value === ''")
        await tab.run("history.back()")
        await tab.until("!document.querySelector('#view-topology').hidden")
        await tab.run("history.forward()")
        await tab.until("!document.querySelector('#view-claims').hidden")
        assert TOKEN not in str(await tab.run("location.href"))

        other = await browser.tab(f"{address}{link.removeprefix('#')}")
        await other.shows("#inspector h2", "analytics")
        assert await other.run("document.querySelector('#tab-claims').ariaSelected") == "true"
        assert await other.run("document.querySelector('#filter-class').value") == "made"
        assert TOKEN not in str(await other.run("location.href"))


@pytest.mark.parametrize("fragment", ["/nonsense?class=%E0%A4%A", "/claims?open=thing/x", "/claims?open=pod"])
async def test_an_address_that_makes_no_sense_shows_what_it_can(browser: Browser, fragment: str) -> None:
    async with shown(small()) as address:
        tab = await browser.tab(f"{address}{fragment}")
        await tab.shows("#connection", "live")
        assert await tab.run("document.querySelector('#inspector').hidden")


async def test_what_is_shown_is_exported(browser: Browser, tmp_path: Path) -> None:
    scene = two_classes()
    scene.claim("=cmd", size="1Gi", storage_class="made")
    async with shown(scene) as address:
        tab = await browser.tab(address)
        await tab.shows("#facts", "nodes")
        await browser.downloads(tmp_path)
        await tab.click("#tab-claims")
        await tab.shows("#view-claims", "huge")
        await choose(tab, "class", "made")
        await tab.click("#export-json")
        exported = json.loads(await browser.downloaded(tmp_path / "mooring-claims.json"))
        assert exported["view"] == "claims"
        assert exported["filters"] == {"class": "made", "zone": "", "state": ""}
        assert [row["name"] for row in exported["rows"]] == ["log", "=cmd", "huge", "data"]
        assert exported["rows"][3] == {
            "name": "data", "namespace": "default", "state": "bound", "bytes": 30 * 2**30, "class": "made",
            "zone": "zone-a", "where": "node-1", "pods": "web", "volume": "vol-data",
        }  # fmt: skip
        await tab.click("#export-csv")
        rows = list(csv.DictReader((await browser.downloaded(tmp_path / "mooring-claims.csv")).splitlines()))
        assert [row["name"] for row in rows] == ["log", "'=cmd", "huge", "data"]
        await tab.click("#tab-topology")
        await tab.click("#export-csv")
        rows = list(csv.DictReader((await browser.downloaded(tmp_path / "mooring-topology.csv")).splitlines()))
        assert {(row["name"], row["free"]) for row in rows} == {
            ("node-1", str(60 * 2**30)),
            ("node-2", str(100 * 2**30)),
        }
