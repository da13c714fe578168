"""Rules of accessibility for a page in the browser, after WCAG 2.2 AA: names, contrast, landmarks, tables, references.

`problems` runs in the page and returns a sentence for each violation. `focus_problems` walks through the page with the
Tab key. `layout_problems` finds text that overlaps other text, is cut off, or sticks out sideways.
"""

from typing import Final

from support.browser import Tab

_SHARED: Final = """
const clipped = (e) => e && (getComputedStyle(e).clipPath === 'inset(50%)' || clipped(e.parentElement));
const shown = (e) => e.checkVisibility({visibilityProperty: true}) && !e.closest('[aria-hidden=true]') && !clipped(e);
const words = (e) => e.outerHTML.replace(/\\s+/g, ' ').slice(0, 100);
const all = (selector) => [...document.querySelectorAll(selector)];
const found = [];
const say = (rule, e) => found.push(`${rule}: ${words(e)}`);
"""

_RULES: Final = """
const heard = (n) => n.nodeType === 1 && n.getAttribute('aria-hidden') !== 'true';
const text = (e) => [...e.childNodes].map((n) => n.nodeType === 3 ? n.data
  : heard(n) ? n.getAttribute('aria-label') ?? text(n) : '').join(' ');
const labelled = (e) => (e.getAttribute('aria-labelledby') ?? '').split(' ')
  .map((id) => document.getElementById(id)?.textContent ?? '').join(' ');
const beside = (label, e) => [...label.childNodes].filter((n) => n !== e).map((n) => n.textContent).join('');
const named = (e) => [
  labelled(e), e.getAttribute('aria-label') ?? '', e.getAttribute('alt') ?? '',
  [...(e.labels ?? [])].map((label) => beside(label, e)).join(' '),
  ['INPUT', 'SELECT'].includes(e.tagName) ? '' : text(e),
].find((one) => one.trim()) ?? '';

// Names.
for (const e of all('button, a[href], input, select, summary, canvas, [role=img], [role=tab], [role=treeitem],'
    + ' [role=option], [role=tree], [role=tablist], [role=tabpanel], [role=listbox], [role=group]'))
  if (shown(e) && !named(e)) say('without a name', e);
for (const e of all('button[aria-label]')) {
  const seen = e.innerText.trim();
  if (/\\w/.test(seen) && !e.getAttribute('aria-label').includes(seen)) say('other words than seen', e);
}
for (const e of all('img')) if (!e.hasAttribute('alt')) say('without alt', e);

// References and roles.
const ids = all('[id]').map((e) => e.id);
for (const e of all('[id]')) if (ids.indexOf(e.id) !== ids.lastIndexOf(e.id)) say('id used twice', e);
for (const name of ['aria-controls', 'aria-labelledby', 'aria-describedby', 'aria-activedescendant'])
  for (const e of all(`[${name}]`))
    for (const id of e.getAttribute(name).split(' ').filter(Boolean))
      if (!document.getElementById(id)) say(`${name} names nothing`, e);
const inside = {treeitem: 'tree', option: 'listbox', tab: 'tablist'};
for (const [role, parent] of Object.entries(inside))
  for (const e of all(`[role=${role}]`)) if (!e.closest(`[role=${parent}]`)) say(`not in a ${parent}`, e);
for (const e of all('[role=tab]')) {
  if (!e.hasAttribute('aria-selected')) say('tab without aria-selected', e);
  const panel = document.getElementById(e.getAttribute('aria-controls'));
  if (panel?.getAttribute('role') !== 'tabpanel') say('tab without a panel', e);
}
if (all('[role=tab][aria-selected=true]').length !== 1) say('not one selected tab', document.body);
for (const e of all('ul > :not(li), ol > :not(li), dl > :not(dt, dd, div)')) say('no item of its list', e);
for (const e of all('li')) if (!e.closest('ul, ol')) say('not in a list', e);

// Landmarks, headings, language.
if (!document.documentElement.lang) say('without a language', document.documentElement);
if (!document.title) say('without a title', document.head);
for (const [name, selector] of [['main', 'main'], ['banner', 'body > header'], ['h1', 'h1']])
  if (all(selector).length !== 1) say(`not one ${name}`, document.body);
let level = 0;
for (const e of all('h1, h2, h3, h4, h5, h6')) {
  if (!e.checkVisibility()) continue;
  const own = Number(e.tagName[1]);
  if (own > level + 1) say(`heading ${own} after ${level}`, e);
  level = own;
}
for (const e of all('section, aside, form, nav'))
  if (shown(e) && !e.parentElement.closest('section') && !labelled(e).trim() && !e.getAttribute('aria-label'))
    say('landmark without a name', e);
for (const e of document.body.children)
  if (shown(e) && e.innerText.trim() && !e.matches('header, main:not([role]), footer, section, noscript'))
    say('outside of every landmark', e);

// Tables.
for (const e of all('table')) {
  if (!e.caption && !e.getAttribute('aria-label')) say('table without a caption', e);
  for (const head of e.querySelectorAll('th')) if (!head.scope) say('th without scope', head);
  const heads = e.querySelectorAll('thead th').length;
  if (!heads) say('table without headings', e);
  for (const row of e.querySelectorAll('tbody tr:not([aria-hidden])'))
    if (row.cells.length !== heads) say('row with other columns', row);
}

// Focus: nothing before its turn, nothing that cannot be heard.
for (const e of all('[tabindex]')) if (e.tabIndex > 0) say('tabindex above 0', e);
for (const e of all('button, a, input, select, [tabindex="0"]'))
  if (e.closest('[aria-hidden=true]')) say('focus in what is not heard', e);

// Targets of at least 24 by 24, except links in a text.
for (const e of all('button, select, input, summary')) {
  const {width, height} = e.getBoundingClientRect();
  if (shown(e) && !e.matches('.link') && (width < 24 || height < 24)) say(`target of ${width} x ${height}`, e);
}

// Contrast.
const parsed = (colour) => {
  const [r, g, b, a = 1] = colour.match(/[\\d.]+/g).map(Number);
  return colour.startsWith('color(') ? [r * 255, g * 255, b * 255, a] : [r, g, b, a];
};
const over = ([r, g, b, a], under) => [r, g, b].map((v, i) => v * a + under[i] * (1 - a));
const luminance = (rgb) => {
  const [r, g, b] = rgb.map((v) => v / 255).map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const contrast = (one, other) => {
  const [low, high] = [luminance(one), luminance(other)].sort((a, b) => a - b);
  return (high + 0.05) / (low + 0.05);
};
const grounds = (e) => {
  if (!e) return [[255, 255, 255]];
  const {backgroundColor, backgroundImage} = getComputedStyle(e);
  const painted = backgroundImage.match(/(rgba?|color)\\([^)]*\\)/g);
  if (painted) return painted.map(parsed).map((one) => one.slice(0, 3));
  const own = parsed(backgroundColor);
  return own[3] === 1 ? [own.slice(0, 3)] : grounds(e.parentElement).map((under) => over(own, under));
};
const opacity = (e) => e ? Number(getComputedStyle(e).opacity) * opacity(e.parentElement) : 1;
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walker.nextNode()) {
  const e = walker.currentNode.parentElement;
  if (!walker.currentNode.data.trim() || !e || !shown(e) || e.closest('noscript, option, script')) continue;
  const {color, fontSize, fontWeight} = getComputedStyle(e);
  const large = parseFloat(fontSize) >= 24 || (parseFloat(fontSize) >= 18.66 && Number(fontWeight) >= 700);
  const ink = parsed(color);
  ink[3] *= opacity(e);
  const worst = Math.min(...grounds(e).map((ground) => contrast(over(ink, ground), ground)));
  if (worst < (large ? 3 : 4.5)) say(`contrast ${worst.toFixed(2)}`, e);
}
"""

_LAYOUT: Final = """
const boxes = [];
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walker.nextNode()) {
  const node = walker.currentNode;
  const e = node.parentElement;
  if (!node.data.trim() || !shown(e) || e.closest('noscript, select, .volume')) continue;
  const range = document.createRange();
  range.selectNodeContents(node);
  for (const line of range.getClientRects()) {
  let {left, right, top, bottom} = line;
  // What an ancestor scrolls away or cuts with an ellipsis is not in the way.
  let scrolled = false;
  for (let a = e; a && a !== document.body; a = a.parentElement) {
    const {overflowX, overflowY, textOverflow, position, webkitLineClamp} = getComputedStyle(a);
    if (overflowX === 'visible' && overflowY === 'visible') continue;
    const edge = a.getBoundingClientRect();
    const cut = right > edge.right + 1 || left < edge.left - 1;
    const told = textOverflow === 'ellipsis' || ['auto', 'scroll'].includes(overflowX) || webkitLineClamp !== 'none';
    if (cut && !told && !scrolled) say('cut off sideways', e);
    if (cut && textOverflow === 'ellipsis') scrolled = true;
    [left, right] = [Math.max(left, edge.left), Math.min(right, edge.right)];
    [top, bottom] = [Math.max(top, edge.top), Math.min(bottom, edge.bottom)];
  }
  if (right - left > 1 && bottom - top > 1) {
    if (right > innerWidth + 1 || left < -1) say('sticks out', e);
    boxes.push({e, left, right, top, bottom});
  }
  }
}
const pinned = (e) => Boolean(e.closest('thead, .inspector-head'));
for (let i = 0; i < boxes.length; i += 1)
  for (let j = i + 1; j < boxes.length; j += 1) {
    const [a, b] = [boxes[i], boxes[j]];
    if (a.e === b.e || pinned(a.e) !== pinned(b.e)) continue;
    const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left);
    const tall = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
    if (wide > 2 && tall > 4) found.push(`overlap: ${words(a.e)} and ${words(b.e)}`);
  }
if (document.documentElement.scrollWidth > innerWidth) found.push('the page scrolls sideways');
"""


async def problems(tab: Tab) -> object:
    """What is wrong for people who hear the page, see little of it or do not use a mouse."""
    return await tab.run(f"(() => {{ {_SHARED} {_RULES} return [...new Set(found)]; }})()")


async def layout_problems(tab: Tab) -> object:
    return await tab.run(f"(() => {{ {_SHARED} {_LAYOUT} return [...new Set(found)]; }})()")


_STOP: Final = """
(() => {
  const e = document.activeElement;
  if (e === document.body) return [];
  const {outlineStyle, boxShadow} = getComputedStyle(e);
  const place = window.last ? window.last.compareDocumentPosition(e) & Node.DOCUMENT_POSITION_FOLLOWING : 1;
  window.last = e;
  const found = [];
  if (outlineStyle === 'none' && boxShadow === 'none') found.push('focus is not seen');
  if (!place) found.push('before what had the focus');
  if (!e.checkVisibility()) found.push('hidden');
  return found.map((one) => `${one}: ${e.outerHTML.slice(0, 100)}`);
})()
"""


async def focus_problems(tab: Tab, stops: int) -> list[str]:
    """What is wrong with the first so many stops of the Tab key: order, visibility, and a visible focus."""
    # From the beginning, wherever the focus was.
    await tab.run("(({body}) => { body.tabIndex = -1; body.focus(); body.removeAttribute('tabindex'); })(document)")
    await tab.run("void (window.last = null)")
    found: list[str] = []
    for _ in range(stops):
        await tab.press("Tab")
        here = await tab.run(_STOP)
        assert isinstance(here, list)
        found += here
    return found
