"""The page while things happen: changes, interruptions, other tabs, many nodes."""

from urllib.parse import urlsplit

from mooring.api.kinds import VOLUME
from support.browser import Browser
from support.web_scene import TOKEN, shown, small, thousand

#: The rows of a screenful and as much around it, in a document that has no others.
MOST_ROWS = 80


async def test_what_changes_is_shown_at_once(browser: Browser) -> None:
    scene = small()
    async with shown(scene) as address:
        tab = await browser.tab(address)
        await tab.shows("#verdict", "One pod waits for a node.")
        scene.pod("analytics", claims=("huge",), node="node-2", phase="Running")
        await tab.shows("#verdict", "Every pod has its node.")
        await tab.shows("#waiting-list", "No pod waits for a node.")
        reference = {"namespace": "default", "name": "log", "uid": "log-uid"}
        scene.made_volume("vol-log", node="node-1", size="10Gi", claim_ref=reference, phase="Bound")
        await tab.until("document.querySelector('[data-volume=vol-log].bound')")
        await tab.shows("#happenings", "Committed")


async def test_a_rollback_is_seen_from_hold_to_end(browser: Browser) -> None:
    scene = small()
    async with shown(scene) as address:
        tab = await browser.tab(address)
        await tab.until("document.querySelector('[data-volume=vol-log].held')")
        going = {"namespace": "kube-system", "name": "rollback-log-uid"}
        why = {"hold.mooring.dev/reason": "node-1 has no room for the others"}
        scene.made_volume("vol-log", node="node-1", size="10Gi", claim_ref=going, annotations=why)
        await tab.until("document.querySelector('[data-volume=vol-log].rolling-back')")
        await tab.shows("#happenings", "rolled back for default/log: node-1 has no room for the others")
        scene.delete(VOLUME, "", "vol-log")
        await tab.until("document.querySelector('[data-volume=vol-log]') === null")
        await tab.shows("#happenings", "RolledBack")


async def test_what_is_open_follows_the_object(browser: Browser) -> None:
    scene = small()
    async with shown(scene) as address:
        tab = await browser.tab(address)
        await tab.click("[data-row='node:node-3']")
        await tab.shows("#inspector dd:last-of-type", "ready")
        scene.node("node-3", zone="zone-b", rack="rack-1", ready=False)
        await tab.shows("#inspector dl", "not ready")
        await tab.shows("#verdict", "One node is not ready.")


async def test_a_tab_comes_back_after_the_server_was_restarted(browser: Browser) -> None:
    scene = small()
    async with shown(scene) as address:
        tab = await browser.tab(address)
        await tab.shows("#connection", "live")
    await tab.shows("#connection", "reconnecting")
    await tab.shows("#tree", "node-3")  # What was known stays in sight.
    scene.node("node-4", zone="zone-b")
    async with shown(scene, port=urlsplit(address).port or 0):
        await tab.click("#connection")
        await tab.shows("#connection", "live")
        await tab.shows("#tree", "node-4")


async def test_several_tabs_show_the_same(browser: Browser) -> None:
    scene = small()
    async with shown(scene) as address:
        tabs = [await browser.tab(address) for _ in range(3)]
        for tab in tabs:
            await tab.shows("#tree", "node-3")
        scene.node("node-4", zone="zone-b")
        for tab in tabs:
            await tab.shows("#tree", "node-4")


async def test_a_reload_finds_the_token_and_what_was_open(browser: Browser) -> None:
    async with shown(small()) as address:
        tab = await browser.tab(address)
        await tab.click("[data-row='node:node-2']")
        await tab.shows("#inspector h2", "node-2")
        assert TOKEN not in str(await tab.run("location.href"))
        await tab.call("Page.reload")
        await tab.shows("#inspector h2", "node-2")
        await tab.shows("#connection", "live")


async def test_without_the_right_token_there_is_nothing(browser: Browser) -> None:
    async with shown(small()) as address:
        site = address.partition("/#")[0]
        tab = await browser.tab(f"{site}/#wrong")
        await tab.shows("#verdict", "This page needs its token.")
        await tab.shows("#facts", "open the printed address")
        assert "node-1" not in str(await tab.run("document.body.innerText"))
        tab.errors = [error for error in tab.errors if "401" not in error]
        other = await browser.tab(site)
        await other.shows("#facts", "Open the address that mooring printed")


async def test_another_site_gets_nothing(browser: Browser) -> None:
    async with shown(small()) as address, shown(small()) as elsewhere:
        tab = await browser.tab(elsewhere)
        await tab.shows("#connection", "live")
        asked = f"fetch('{address.partition('/#')[0]}/api/frames', {{headers: {{Authorization: 'Bearer {TOKEN}'}}}})"
        assert await tab.run(f"{asked}.then(() => 'answered', () => 'refused')") == "refused"
        tab.errors = []  # The browser says why, loudly.


async def test_a_thousand_nodes(browser: Browser) -> None:
    scene = thousand()
    async with shown(scene) as address:
        tab = await browser.tab(address)
        await tab.shows("#verdict", "100 pods wait for a node. One node is not ready.")
        await tab.shows("#facts", "1,000 nodes in 3 zones")
        assert await tab.run("!document.querySelector('#overview').hidden")
        assert await tab.run(f"document.querySelectorAll('#tree .row').length < {MOST_ROWS}")
        await tab.run("document.querySelector('#tree').focus()")
        await tab.press("End")
        await tab.shows("#tree", "node-998")
        assert await tab.run(f"document.querySelectorAll('#tree .row').length < {MOST_ROWS}")
        await tab.press("/", *"node-777", "Enter")
        await tab.shows("#inspector h2", "node-777")
        await tab.until("document.querySelector('[data-row=\"node:node-777\"]')")
        await tab.press("Escape")
        await tab.press("Home", "ArrowLeft")
        await tab.until("document.querySelectorAll('[data-row^=\"node:\"]').length < 60")
        await tab.shows("#tree", "333 nodes")
