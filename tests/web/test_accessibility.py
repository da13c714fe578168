"""The page for people who hear it, see little of it, use no mouse, or have a phone."""

import pytest

from support.accessibility import focus_problems, layout_problems, problems
from support.browser import Browser, Tab
from support.web_scene import Scene, grouped, shown

PHONE = (390, 844)
LAPTOP = (1366, 768)


def scene() -> Scene:
    """Everything there is to be seen: groups, holds, a lost node with a volume, messages."""
    made = grouped()
    made.node("node-4", zone="zone-b", lost_since="2026-01-01T00:00:00Z")
    made.pool("node-4", "40Gi")
    made.claim("kept", size="5Gi", storage_class="made", volume="vol-kept", bound=True)
    made.made_volume("vol-kept", node="node-4", claim="kept", size="5Gi")
    made.node("a-node-with-a-rather-long-name.example.com", zone="a-zone-with-a-rather-long-name-1a", rack="rack-17")
    made.volume("disk-5", node="a-node-with-a-rather-long-name.example.com", size="20Gi")
    return made


async def visit(tab: Tab, view: str) -> None:
    """The view, with something open where there is something to open."""
    await tab.run(f"document.querySelector('#tab-{view}').click()")
    if view == "recovery":
        await tab.shows("#view-recovery", "Left alone")
    elif view == "topology":
        await tab.shows("#tree", "node-4")
    else:
        await tab.until(f"document.querySelector('#view-{view} tbody button')")


@pytest.mark.parametrize(
    ("size", "dark"),
    [
        pytest.param(LAPTOP, False, id="laptop"),
        pytest.param(LAPTOP, True, id="laptop in the dark"),
        pytest.param(PHONE, False, id="phone"),
        pytest.param(PHONE, True, id="phone in the dark"),
    ],
)
async def test_every_view_can_be_used_by_all(browser: Browser, size: tuple[int, int], dark: bool) -> None:
    async with shown(scene()) as address:
        tab = await browser.tab(address, size=size, dark=dark)
        await tab.shows("#tree", "node-4")
        found: dict[str, object] = {}
        for view in ("topology", "claims", "volumes", "groups", "recovery"):
            await visit(tab, view)
            found[view] = [*await _listed(tab)]
        for kind, key in (("pod", "default/analytics"), ("group", "default/wide"), ("node", "node-4")):
            await tab.run(f"location.hash = '/topology?open={kind}/{key}'")
            await tab.shows("#inspector h2", key.split("/")[-1])
            if kind != "node":
                await tab.shows("#inspector .says", key)
            found[f"{kind} {key}"] = [*await _listed(tab)]
    assert {name: each for name, each in found.items() if each} == {}


async def _listed(tab: Tab) -> list[str]:
    found = [await problems(tab), await layout_problems(tab)]
    return [one for each in found if isinstance(each, list) for one in each]


async def test_the_tab_key_visits_everything_in_order_and_shows_where_it_is(browser: Browser) -> None:
    async with shown(scene()) as address:
        tab = await browser.tab(address)
        await tab.shows("#tree", "node-4")
        assert await focus_problems(tab, 12) == []
        await visit(tab, "claims")
        assert await focus_problems(tab, 12) == []


BREAKAGES = {
    "without a name": "document.querySelector('#export-csv').textContent = ''",
    "contrast": "document.querySelector('#facts').style.color = '#bbb'",
    "outside of every landmark": "document.querySelector('main').role = 'none'",
    "table without headings": "document.querySelector('thead').remove()",
    "tabindex above 0": "document.querySelector('#search').tabIndex = 3",
    "overlap": "document.querySelector('#facts').style.marginTop = '-30px'",
}


async def test_the_rules_find_what_they_are_for(browser: Browser) -> None:
    async with shown(Scene()) as address:
        for rule, breakage in BREAKAGES.items():
            tab = await browser.tab(address)
            await tab.shows("#verdict", "There are no pods yet.")
            assert await _listed(tab) == []
            await tab.run(f"void ({breakage})")
            assert any(rule in one for one in await _listed(tab)), rule
