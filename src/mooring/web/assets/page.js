// The page itself: frames come in, everything that shows them is told, at most as often as it can be drawn.

import { VIEWS, formatted, parsed } from "./address.js";
import { Connection, takeToken } from "./connection.js";
import { byId, h } from "./dom.js";
import { save } from "./exports.js";
import { Filters, NONE } from "./filters.js";
import { count } from "./format.js";
import { Inspector } from "./inspector.js";
import { Model, placeKey } from "./model.js";
import { Overview } from "./overview.js";
import { Recovery } from "./recovery.js";
import { Search } from "./search.js";
import { showNotices, showVerdict } from "./summary.js";
import { Timeline } from "./timeline.js";
import { MANY, Topology, showScale } from "./topology.js";
import { tableRows, tables, topologyRows } from "./views.js";
import { Waiting } from "./waiting.js";

const QUICKEST = 80;
// A drawing may take this share of the time; large clusters are drawn less often.
const SHARE = 4;
const TITLES = { topology: "Topology", claims: "Claims", volumes: "Volumes", groups: "Groups", recovery: "Recovery" };

const model = new Model();
const connection = new Connection(takeToken(), { onFrame: take, onState: showState });
const topology = new Topology(byId("tree"), { onSelect: select });
const overview = new Overview(byId("overview"), { onSelect: select });
const waiting = new Waiting({ onSelect: select });
const timeline = new Timeline({ onSelect: select });
const recovery = new Recovery({ connection, onSelect: select });
const inspector = new Inspector({ model, connection, onSelect: select, onClose: close, onPlan });
const search = new Search({ model, onSelect: select });
const filters = new Filters({ onChange: (chosen) => go({ filters: chosen }) });
const views = tables(model, select);
const tabs = new Map(VIEWS.map((view) => [view, tab(view)]));
byId("views").append(...tabs.values());

let shown = { view: "topology", filters: NONE, open: null };
let opener = "#tree";
let due = 0;
let drawn = 0;
let picture = false;

function take(frame) {
  model.apply(frame);
  if (frame.whole) byId("cluster").textContent = frame.cluster;
  if (!due) due = setTimeout(draw, picture ? Math.max(QUICKEST, drawn * SHARE) : 0);
}

function draw() {
  due = 0;
  const begun = performance.now();
  const first = !picture;
  picture = true;
  if (first) apply(parsed(location.hash.slice(1)));
  else drawAll();
  drawn = performance.now() - begun;
  document.documentElement.dataset.drawn = String(Number(document.documentElement.dataset.drawn ?? 0) + 1);
}

function drawAll() {
  drawView();
  const { open } = shown;
  waiting.update(model, open && `${open.kind} ${open.id}`);
  timeline.update(model);
  inspector.update();
  filters.update(model, shown.filters);
  showVerdict(model);
  showNotices(model);
  showCounts();
}

// Only the view in sight is drawn.
function drawView() {
  const { view, open } = shown;
  if (view === "topology") {
    const built = model.filtered.build();
    const many = model.nodes.size > MANY;
    byId("overview").hidden = !many;
    topology.update(built, model.nodes.size);
    if (many) overview.update(built, open ? rowOf(open.kind, open.id) : "");
    showScale(byId("scale"), built.widest);
  } else if (view === "recovery") {
    const lost = [...model.unready].filter((id) => model.isLost(id));
    recovery.update(`${lost} ${[...(model.places.get("nowhere")?.volumes.keys() ?? [])]}`);
  } else {
    const { table, matches } = views[view];
    const selected = open && `${open.kind}s` === view ? open.id : "";
    table.update(model[view], matches, model.takeChanged(view), selected);
  }
}

function tab(view) {
  return h(
    "button",
    {
      type: "button",
      id: `tab-${view}`,
      role: "tab",
      "aria-controls": `view-${view}`,
      onclick: () => show(view),
      onkeydown: (event) => moveTab(event, view),
    },
    TITLES[view],
  );
}

function moveTab(event, view) {
  const last = VIEWS.length - 1;
  const index = VIEWS.indexOf(view);
  const to = { ArrowRight: index + 1, ArrowLeft: index - 1, Home: 0, End: last }[event.key];
  if (to === undefined) return;
  event.preventDefault();
  const next = VIEWS[(to + VIEWS.length) % VIEWS.length];
  show(next);
  tabs.get(next).focus();
}

function showCounts() {
  const unfinished = [...model.groups.values()].filter((group) => group.state !== "Committed").length;
  const number = { groups: unfinished, recovery: [...model.unready].filter((id) => model.isLost(id)).length };
  for (const [view, button] of tabs) {
    const words = number[view] ? `${TITLES[view]} ${count(number[view])}` : TITLES[view];
    if (button.textContent !== words) button.textContent = words;
  }
}

function showState(state, text = "") {
  const button = byId("connection");
  if (button.dataset.state === state) return;
  button.dataset.state = state;
  button.textContent = { live: "live", reconnecting: "reconnecting", refused: "closed", connecting: "connecting" }[
    state
  ];
  button.title = state === "reconnecting" ? "The server does not answer. Click to try now." : "";
  if (state === "refused") {
    byId("verdict").textContent = "This page needs its token.";
    byId("facts").textContent = text;
  }
}

// Every change of what is shown is an address of its own, which Back leaves again.
function go(change) {
  const next = { ...shown, ...change };
  const address = formatted(next);
  if (address !== formatted(shown)) history.pushState(null, "", address);
  apply(next);
}

function select(kind, id) {
  go({ open: { kind, id } });
}

function show(view) {
  go({ view });
}

function onPlan() {
  go({ view: "recovery", open: null });
}

function close() {
  go({ open: null });
}

function apply(next) {
  const before = shown;
  shown = next;
  if (JSON.stringify(before.filters) !== JSON.stringify(next.filters)) model.filter(next.filters);
  for (const [view, button] of tabs) {
    const chosen = view === next.view;
    button.setAttribute("aria-selected", String(chosen));
    button.tabIndex = chosen ? 0 : -1;
    byId(`view-${view}`).hidden = !chosen;
  }
  // Groups and plans are shown as a whole.
  byId("filters").hidden = next.view === "groups" || next.view === "recovery";
  if (!picture) return;
  const { open } = next;
  if (open) openDetails(open, before.open);
  drawAll();
  if (open && next.view === "topology") revealRow(open);
  if (!open && inspector.shown) closeDetails();
}

function openDetails({ kind, id }, before) {
  if (before && before.kind === kind && before.id === id && inspector.shown) return;
  if (!inspector.shown) opener = wayBack(document.activeElement);
  document.body.dataset.inspecting = "yes";
  inspector.show(kind, id);
  byId("inspector").focus({ preventScroll: true });
}

function revealRow({ kind, id }) {
  const row = rowOf(kind, id);
  if (row) topology.reveal(row);
  topology.mark(row, kind === "volume" ? id : model.claims.get(kind === "claim" ? id : "")?.volume);
}

function closeDetails() {
  const held = byId("inspector").contains(document.activeElement) || document.activeElement === document.body;
  inspector.hide();
  delete document.body.dataset.inspecting;
  topology.mark("");
  if (held) (document.querySelector(opener) ?? byId("tree")).focus({ preventScroll: true });
}

// Which row of the tree the object is drawn in; none for a pod without a node.
function rowOf(kind, id) {
  switch (kind) {
    case "node":
      return `node:${id}`;
    case "place":
      return id;
    case "pod":
      return model.pods.get(id)?.node ? `node:${model.pods.get(id).node}` : "";
    case "volume":
      return model.volumes.has(id) ? placeKey(model.volumes.get(id).place) : "";
    case "claim":
      return rowOf("volume", model.claims.get(id)?.volume ?? "");
    default:
      return "";
  }
}

// Where the focus returns to when details are closed. Lists are drawn anew meanwhile, so elements are found again by
// what they stand for; after a search the focus moves to the view, at what was found.
function wayBack(element) {
  for (const name of ["pod", "id"]) {
    const value = element?.dataset?.[name];
    if (value && element.closest("#waiting-list, .table")) return `[data-${name}="${CSS.escape(value)}"]`;
  }
  return shown.view === "topology" ? "#tree" : `#tab-${shown.view}`;
}

function exported(format) {
  const { view } = shown;
  const rows =
    view === "topology"
      ? topologyRows(model.filtered.build())
      : view === "recovery"
        ? recovery.rows()
        : tableRows(views[view].table);
  const about = { view, filters: shown.filters, at: new Date(model.now * 1000).toISOString() };
  save(format, `mooring-${view}`, about, rows);
}

document.addEventListener("keydown", (event) => {
  const typing = event.target.closest?.("input, select");
  if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey && !event.altKey) {
    event.preventDefault();
    search.focus();
  } else if (event.key === "Escape" && inspector.shown) {
    close();
  }
});
addEventListener("popstate", () => apply(parsed(location.hash.slice(1))));
for (const format of ["json", "csv"]) byId(`export-${format}`).addEventListener("click", () => exported(format));
byId("connection").addEventListener("click", () => connection.retry());
setInterval(() => waiting.update(model, shown.open && `${shown.open.kind} ${shown.open.id}`), 10_000);

apply(shown);
if (connection.token) connection.run();
else showState("refused", "Open the address that mooring printed: it ends in a secret that lets you in.");
