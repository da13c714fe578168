"""The page without a mouse, and for those who hear it."""

from support.browser import Browser, Tab
from support.web_scene import shown, small


async def active_row(tab: Tab) -> object:
    return await tab.run(
        "document.getElementById(document.querySelector('#tree').getAttribute('aria-activedescendant'))?.dataset.row"
    )


async def test_search_finds_and_opens(browser: Browser) -> None:
    async with shown(small()) as address:
        tab = await browser.tab(address)
        await tab.shows("#tree", "node-1")
        await tab.press("/")
        assert await tab.run("document.activeElement.id") == "search"
        await tab.press(*"node-")
        await tab.until("document.querySelectorAll('#found [role=option]').length === 3")
        await tab.press("ArrowDown")
        assert await tab.run("document.querySelector('#search').getAttribute('aria-activedescendant')") == "found-1"
        await tab.press("Enter")
        await tab.shows("#inspector h2", "node-2")
        assert await tab.run("document.querySelector('#found').hidden")


async def test_search_finds_every_sort_of_thing_and_says_when_there_is_none(browser: Browser) -> None:
    async with shown(small()) as address:
        tab = await browser.tab(address)
        await tab.shows("#tree", "node-1")
        for wanted, kind in (("node-3", "node"), ("analytics", "pod"), ("huge", "claim"), ("disk-3", "volume")):
            await tab.press("/", *wanted)
            await tab.shows("#found [aria-selected=true] .kind", kind)
            await tab.press("Escape")
        await tab.press("/", *"missing")
        await tab.shows("#found", "Nothing has this in its name.")
        await tab.press("Escape")
        assert await tab.run("document.querySelector('#search').value") == ""


async def test_the_tree_is_walked_with_arrows(browser: Browser) -> None:
    async with shown(small()) as address:
        tab = await browser.tab(address)
        await tab.shows("#tree", "node-1")
        await tab.run("document.querySelector('#tree').focus()")
        assert await active_row(tab) == "z:zone-a"
        await tab.press("ArrowDown", "ArrowDown")
        assert await active_row(tab) == "node:node-1"
        await tab.press("ArrowLeft")
        assert await active_row(tab) == "r:zone-a/rack-1"
        await tab.press("ArrowLeft")
        assert await tab.run("document.querySelector('[data-row=\"r:zone-a/rack-1\"]').ariaExpanded") == "false"
        assert await tab.run("document.querySelector('[data-row=\"node:node-1\"]') === null")
        await tab.press("ArrowRight", "ArrowDown", "Enter")
        await tab.shows("#inspector h2", "node-1")
        await tab.press("Escape")
        assert await tab.run("document.querySelector('#inspector').hidden")
        assert await tab.run("document.activeElement.id") == "tree"
        await tab.press("End")
        assert await active_row(tab) == "node:node-3"
        await tab.press("Home")
        assert await active_row(tab) == "z:zone-a"


async def test_tab_goes_through_the_page_in_the_order_it_is_read(browser: Browser) -> None:
    async with shown(small()) as address:
        tab = await browser.tab(address)
        await tab.shows("#waiting-list", "analytics")
        await tab.shows("#happenings", "FailedScheduling")
        stops = []
        for _ in range(11):
            await tab.press("Tab")
            stops.append(await tab.run("document.activeElement.id || document.activeElement.className"))
        head = ["tab-topology", "filter-class", "filter-zone", "filter-state", "export-json", "export-csv"]
        assert stops == ["search", "connection", *head, "tree", "pod", "lane binding"]


async def test_a_pod_is_explained_without_a_mouse(browser: Browser) -> None:
    async with shown(small()) as address:
        tab = await browser.tab(address)
        await tab.shows("#waiting-list", "analytics")
        await tab.run("document.querySelector('.pod').focus()")
        await tab.press("Enter")
        await tab.shows("#inspector .says", "would not fit")
        await tab.press("Escape")
        assert await tab.run("document.activeElement.dataset.pod") == "default/analytics"


async def test_everything_has_a_name_and_a_role(browser: Browser) -> None:
    async with shown(small()) as address:
        tab = await browser.tab(address)
        await tab.shows("#tree", "node-3")
        await tab.click("[data-pod='default/analytics']")
        await tab.shows("#inspector .says", "would not fit")
        nameless = await tab.run(
            "[...document.querySelectorAll('button, input, [role=treeitem], canvas, section, details > summary')]"
            ".filter((one) => !(one.ariaLabel || one.innerText || one.getAttribute('aria-labelledby')))"
            ".filter((one) => !one.closest('#inspector section')).map((one) => one.outerHTML.slice(0, 90))"
        )
        assert nameless == []
        row = await tab.run(
            "(({ariaLevel, ariaSetSize, ariaPosInSet, ariaLabel}) => [ariaLevel, ariaSetSize, ariaPosInSet, ariaLabel])"
            "(document.querySelector('[data-row=\"node:node-1\"]'))"
        )
        assert row == ["3", "1", "1", "node-1, 60Gi free of 100Gi, 2 volumes"]
