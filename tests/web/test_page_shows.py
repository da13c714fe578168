"""The page in a real browser: what it shows, to scale, in words, in both colour schemes."""

import re

import pytest

from support.browser import Browser, Tab
from support.web_scene import Scene, shown, small

#: Text on what it stands on, as the style sheets pair them.
PAIRS = (
    ("--ink", "--paper"),
    ("--ink", "--surface"),
    ("--ink", "--sunken"),
    ("--ink", "--accent-soft"),
    ("--ink", "--note"),
    ("--muted", "--paper"),
    ("--muted", "--surface"),
    ("--muted", "--sunken"),
    ("--accent", "--surface"),
    ("--bad", "--surface"),
    ("--bad", "--accent-soft"),
    ("--good", "--surface"),
)
READABLE = 4.5


async def widths(tab: Tab, selector: str) -> list[float]:
    found = await tab.run(
        f"[...document.querySelectorAll('{selector}')].map((one) => one.getBoundingClientRect().width)"
    )
    assert isinstance(found, list)
    return found


async def test_the_verdict_comes_first_and_then_the_figures(browser: Browser) -> None:
    async with shown(small()) as address:
        tab = await browser.tab(address)
        await tab.shows("#verdict", "One pod waits for a node.")
        await tab.shows("#facts", "3 nodes in 2 zones")
        await tab.shows("#facts", "1 of 3 claims bound")
        await tab.shows("#facts", "1 volume held")
        await tab.shows("#connection", "live")
        assert await tab.run("document.title") == "(1) Mooring"


async def test_the_topology_has_zones_racks_and_nodes(browser: Browser) -> None:
    async with shown(small()) as address:
        tab = await browser.tab(address)
        await tab.shows("#tree", "node-3")
        labels = await tab.run("[...document.querySelectorAll('.row .name')].map((one) => one.innerText)")
        assert labels == ["zone-a", "rack-1", "node-1", "rack-2", "node-2", "zone-b", "rack-1", "node-3"]
        await tab.shows("#scale", "A full bar is 100Gi, the largest node")


async def test_volumes_and_pools_are_drawn_to_scale(browser: Browser) -> None:
    async with shown(small()) as address:
        tab = await browser.tab(address)
        await tab.until("document.querySelector('[data-volume=vol-data]')")
        [full, also_full, disk] = await widths(tab, ".pool")
        assert full == pytest.approx(also_full, abs=1)
        assert disk / full == pytest.approx(20 / 100, abs=0.01)
        [data] = await widths(tab, "[data-volume=vol-data]")
        assert (data + 2) / full == pytest.approx(30 / 100, abs=0.01)  # Two pixels keep it from its neighbour.
        assert await tab.run("document.querySelector('[data-volume=vol-log]').classList.contains('held')")
        assert await tab.run("document.querySelector('[data-volume=disk-3]').classList.contains('free')")


async def test_shared_and_unreachable_storage_is_shown(browser: Browser) -> None:
    scene = small()
    scene.volume("everywhere", size="5Gi", phase="Available")
    scene.volume("stranded", size="5Gi", node="node-9")
    async with shown(scene) as address:
        tab = await browser.tab(address)
        await tab.shows("#tree", "Whole cluster")
        await tab.shows("#tree", "No node reaches")
        await tab.shows("#verdict", "One volume is out of every node's reach.")
        await tab.click(".row.trouble")
        await tab.shows("#inspector", "stranded")


async def test_a_waiting_pod_is_explained_on_a_click(browser: Browser) -> None:
    async with shown(small()) as address:
        tab = await browser.tab(address)
        await tab.shows("#waiting-list", "did not have enough free storage")
        await tab.click("[data-pod='default/analytics']")
        await tab.shows("#inspector .says", "default/analytics would not fit")
        await tab.shows("#inspector .nodes summary", "3 nodes")
        await tab.shows("#inspector", "What happened")
        assert await tab.run("document.activeElement.id") == "inspector"
        await tab.click("#inspector .nodes .link")
        await tab.shows("#inspector h2", "node-1")
        assert await tab.run("document.querySelector('#tree [aria-selected=true]').dataset.row") == "node:node-1"


async def test_a_pod_on_its_way_says_how_far_it_is(browser: Browser) -> None:
    scene = small()
    scene.claim("coming", storage_class="made", selected_node="node-2")
    scene.pod("soon", claims=("coming",))
    scene.pod("new")
    async with shown(scene) as address:
        tab = await browser.tab(address)
        await tab.shows("[data-pod='default/soon']", "volumes are being made for it on node-2")
        await tab.shows("[data-pod='default/new']", "no word from the scheduler yet")


async def test_what_belongs_together_is_linked(browser: Browser) -> None:
    async with shown(small()) as address:
        tab = await browser.tab(address)
        await tab.click("[data-volume=vol-log]")
        await tab.shows("#inspector", "Held for claim")
        assert await tab.run("document.querySelector('.volume.chosen').dataset.volume") == "vol-log"
        await tab.click("#inspector .objects .link")
        await tab.shows("#inspector .kind", "PersistentVolumeClaim")
        await tab.click("[data-row='node:node-1']")
        await tab.shows("#inspector", "60Gi of 100Gi free")
        await tab.shows("#inspector", "web")


async def test_the_timeline_has_what_happened_and_can_leave_things_out(browser: Browser) -> None:
    async with shown(small()) as address:
        tab = await browser.tab(address)
        await tab.shows("#happenings", "FailedScheduling")
        await tab.shows("#happenings", "held for default/log on node-1")
        await tab.click("[data-lane=trouble]")
        await tab.until("!document.querySelector('#happenings').innerText.includes('FailedScheduling')")
        assert await tab.run("document.querySelector('[data-lane=trouble]').ariaPressed") == "false"


async def test_text_from_the_cluster_never_becomes_markup(browser: Browser) -> None:
    scene = small()
    hostile = "<img src=x onerror=document.title='owned'><script>document.title='owned'</script>"
    scene.event("hostile", about=("Pod", "analytics"), reason="<b>bold</b>", message=hostile, warning=True)
    async with shown(scene) as address:
        tab = await browser.tab(address)
        await tab.shows("#happenings", "<img src=x onerror")
        await tab.shows("#happenings", "<b>bold</b>")
        assert await tab.run("document.querySelectorAll('#happenings img, #happenings script').length") == 0


async def test_forbidden_kinds_are_shown(browser: Browser) -> None:
    async with shown(small(), refused=("persistentvolumes", "events")) as address:
        tab = await browser.tab(address)
        await tab.shows("#notices", "You have no right to list persistentvolumes, events; they are missing here.")
        await tab.shows("#tree", "node-1")


async def test_an_empty_cluster_says_so(browser: Browser) -> None:
    async with shown(Scene()) as address:
        tab = await browser.tab(address)
        await tab.shows("#verdict", "There are no pods yet.")
        await tab.shows("#happenings", "Nothing happened lately.")


def luminance(colour: str) -> float:
    values = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in values)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("dark", [pytest.param(False, id="light"), pytest.param(True, id="dark")])
async def test_text_can_be_read_in_both_schemes(browser: Browser, dark: bool) -> None:
    async with shown(small()) as address:
        tab = await browser.tab(address, dark=dark)
        await tab.shows("#tree", "node-3")
        names = sorted({name for pair in PAIRS for name in pair})
        colours = {
            name: await tab.run(f"getComputedStyle(document.documentElement).getPropertyValue('{name}').trim()")
            for name in names
        }
    assert all(re.fullmatch("#[0-9a-f]{6}", str(colour)) for colour in colours.values())
    assert (luminance(str(colours["--paper"])) < 0.1) is dark
    poor = []
    for text, ground in PAIRS:
        low, high = sorted((luminance(str(colours[text])), luminance(str(colours[ground]))))
        contrast = (high + 0.05) / (low + 0.05)
        if contrast < READABLE:
            poor.append((text, ground, round(contrast, 2)))
    assert poor == []


@pytest.mark.parametrize("size", [pytest.param((1366, 768), id="laptop"), pytest.param((800, 900), id="narrow")])
async def test_nothing_sticks_out_sideways(browser: Browser, size: tuple[int, int]) -> None:
    async with shown(small()) as address:
        tab = await browser.tab(address, size=size)
        await tab.shows("#tree", "node-1")
        assert await tab.run("document.documentElement.scrollWidth <= innerWidth")
