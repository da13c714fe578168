"""The page of 5,000 nodes: only what is in sight is in the document, and only what changed is drawn again."""

from collections.abc import AsyncIterator

import pytest

from support.browser import Browser, Tab
from support.web_scene import Scene, shown

NODES = 5000
#: The rows of a screenful and as much around it.
MOST_ROWS = 80
#: Elements of the whole page: rows, waiting pods and happenings are all bounded.
MOST_ELEMENTS = 2500


def five_thousand() -> Scene:
    """Nodes in three zones, each with a pool and a volume; the largest gives the scale."""
    scene = Scene()
    scene.classes()
    for number in range(1, NODES + 1):
        name = f"node-{number}"
        scene.node(name, zone=f"zone-{'abc'[number % 3]}")
        scene.pool(name, "500Gi" if number == NODES else "50Gi")
        scene.claim(f"data-{number}", size="10Gi", storage_class="made", volume=f"vol-{number}", bound=True)
        scene.made_volume(f"vol-{number}", node=name, claim=f"data-{number}", size="10Gi")
    return scene


#: Counts the elements that are added to the document, by the row they belong to.
WATCH = """
void (window.added = [], window.seen = new MutationObserver((records) => {
  for (const record of records)
    for (const node of record.addedNodes)
      if (node.nodeType === 1) window.added.push(node.dataset?.row ?? record.target.id ?? record.target.className);
}), window.seen.observe(document.querySelector('main'), {childList: true, subtree: true}))
"""


async def added(tab: Tab) -> list[str]:
    """The rows that were drawn since this was last asked."""
    found = await tab.run("window.added.splice(0).filter((one) => one)")
    assert isinstance(found, list)
    return found


async def drawn(tab: Tab) -> int:
    return int(str(await tab.run("Number(document.documentElement.dataset.drawn)")))


@pytest.fixture
async def opened(browser: Browser) -> AsyncIterator[tuple[Tab, Scene]]:
    scene = five_thousand()
    async with shown(scene) as address:
        tab = await browser.tab(address)
        for _ in range(3):  # A machine that is busy needs more than one wait for so many objects.
            try:
                await tab.shows("#facts", "5,000 nodes in 3 zones  ·  5,000 of 5,000 claims bound")
                break
            except AssertionError:
                continue
        await tab.shows("[data-row='z:zone-a']", "1,666 volumes")
        yield tab, scene


async def test_only_what_is_in_sight_is_drawn(opened: tuple[Tab, Scene]) -> None:
    tab, scene = opened
    await tab.run(WATCH)
    # Far below what is in sight: the sums above it change, and no other row.
    scene.made_volume("more-1", node="node-4998", claim="data-4998", size="5Gi")
    await tab.shows("[data-row='z:zone-a']", "1,667 volumes")
    assert set(await added(tab)) <= {"z:zone-a", "happenings"}
    # In sight: this row alone.
    scene.pool("node-3", "44Gi")
    await tab.shows("[data-row='node:node-3']", "44Gi free")
    assert set(await added(tab)) <= {"node:node-3", "z:zone-a", "happenings"}
    before = await drawn(tab)
    for number in range(1, 201):
        scene.made_volume(f"burst-{number}", node=f"node-{number}", claim=f"data-{number}", size="1Gi")
    await tab.until("document.querySelector('[data-row=\"z:zone-a\"]').innerText.includes('1,733 volumes')")
    assert await drawn(tab) - before < 30, "two hundred changes are drawn together"

    await tab.click("#tab-claims")
    await tab.shows("#view-claims tbody", "data-1")
    assert await tab.run(f"document.querySelectorAll('#view-claims tbody tr').length < {MOST_ROWS}")
    await added(tab)
    scene.made_volume("late", node="node-4321", claim="data-4321", size="1Gi")
    await tab.shows("#happenings", "late")
    assert set(await added(tab)) <= {"happenings"}
    await tab.run("document.querySelector('#view-claims .table-scroll').scrollTo(0, 1e9)")
    await tab.shows("#view-claims tbody", "data-5000")
    assert await tab.run(f"document.querySelectorAll('#view-claims tbody tr').length < {MOST_ROWS}")
    assert await tab.run(f"document.querySelectorAll('*').length < {MOST_ELEMENTS}")
