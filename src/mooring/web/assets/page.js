// The page itself: frames come in, everything that shows them is told, at most as often as it can be drawn.

import { Connection, takeToken } from "./connection.js";
import { byId, h, replace } from "./dom.js";
import { bytes, count, plural, worded } from "./format.js";
import { Inspector } from "./inspector.js";
import { Model, placeKey } from "./model.js";
import { Overview } from "./overview.js";
import { Search } from "./search.js";
import { Timeline } from "./timeline.js";
import { MANY, Topology, showScale } from "./topology.js";
import { Waiting } from "./waiting.js";

const QUICKEST = 80;
// A drawing may take this share of the time; large clusters are drawn less often.
const SHARE = 4;

const model = new Model();
const connection = new Connection(takeToken(), { onFrame: take, onState: showState });
const topology = new Topology(byId("tree"), { onSelect: select });
const overview = new Overview(byId("overview"), { onSelect: select });
const waiting = new Waiting({ onSelect: select });
const timeline = new Timeline({ onSelect: select });
const inspector = new Inspector({ model, connection, onSelect: select, onClose: close });
const search = new Search({ model, onSelect: select });

let selected = null;
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
  const built = model.topology();
  const many = model.nodes.size > MANY;
  byId("overview").hidden = !many;
  topology.update(built, model.nodes.size);
  if (many) overview.update(built, selected?.row);
  showScale(byId("scale"), built.widest);
  waiting.update(model, selected && `${selected.kind} ${selected.id}`);
  timeline.update(model);
  inspector.update(built);
  showVerdict(built);
  showNotices();
  if (!picture) restore();
  picture = true;
  drawn = performance.now() - begun;
  document.documentElement.dataset.drawn = String(Number(document.documentElement.dataset.drawn ?? 0) + 1);
}

function showVerdict(built) {
  const waits = model.waiting().length;
  const volumes = [...model.volumes.values()];
  const number = (state) => volumes.filter((one) => one.state === state).length;
  const [held, rolled, stranded] = [number("held"), number("rolling back"), built.holders.get("nowhere")?.volumes ?? 0];
  const lost = [...model.nodes.values()].filter((node) => node.ready === false).length;
  const sentences = [
    waits
      ? `${worded(waits)} ${waits === 1 ? "pod waits" : "pods wait"} for a node.`
      : model.pods.size
        ? "Every pod has its node."
        : "There are no pods yet.",
  ];
  if (lost) sentences.push(`${worded(lost)} ${lost === 1 ? "node is" : "nodes are"} not ready.`);
  if (stranded)
    sentences.push(`${worded(stranded)} ${stranded === 1 ? "volume is" : "volumes are"} out of every node's reach.`);
  const verdict = byId("verdict");
  const words = sentences.join(" ");
  if (verdict.textContent !== words) {
    verdict.textContent = words;
    byId("spoken").textContent = words;
    document.title = waits ? `(${waits}) Mooring` : "Mooring";
  }
  verdict.dataset.tone = waits || lost || stranded ? "trouble" : "calm";
  const claims = [...model.claims.values()];
  const bound = claims.filter((claim) => claim.phase === "Bound").length;
  const all = built.zones.reduce(
    (total, zone) => ({ used: total.used + zone.sum.used, total: total.total + zone.sum.total }),
    { used: 0, total: 0 },
  );
  const facts = [
    `${plural(model.nodes.size, "node")} in ${plural(built.zones.length, "zone")}`,
    claims.length && `${count(bound)} of ${plural(claims.length, "claim")} bound`,
    held && `${plural(held, "volume")} held`,
    rolled && `${plural(rolled, "volume")} rolling back`,
    all.total && `${bytes(all.used)} of ${bytes(all.total)} used`,
  ];
  byId("facts").textContent = facts.filter(Boolean).join("  ·  ");
}

function showNotices() {
  const element = byId("notices");
  const notices = [...model.notices.values()].filter((one) => one.state !== "loading");
  const signature = JSON.stringify(notices);
  if (element.dataset.signature === signature) return;
  element.dataset.signature = signature;
  const of = (state) => notices.filter((one) => one.state === state);
  const [forbidden, unreachable] = [of("forbidden"), of("unreachable")];
  replace(
    element,
    unreachable.length > 0 &&
      h(
        "p",
        { title: unreachable[0].text },
        h("b", {}, "The API server does not answer. "),
        "What you see is as it was last heard: ",
        unreachable[0].text,
      ),
    forbidden.length > 0 &&
      h(
        "p",
        { title: forbidden.map((one) => one.text).join("\n") },
        h("b", {}, "Not everything may be seen. "),
        `You have no right to list ${forbidden.map((one) => one.id).join(", ")}; they are missing here.`,
      ),
  );
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

function select(kind, id) {
  if (!inspector.shown) opener = wayBack(document.activeElement);
  const row = rowOf(kind, id);
  selected = { kind, id, row };
  inspector.show(kind, id);
  document.body.dataset.inspecting = "yes";
  if (row) topology.reveal(row);
  topology.mark(row, kind === "volume" ? id : model.claims.get(kind === "claim" ? id : "")?.volume);
  overview.update(overview.topology, row);
  waiting.update(model, `${kind} ${id}`);
  byId("inspector").focus({ preventScroll: true });
  history.replaceState(null, "", `#/${kind}/${id}`);
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
    default:
      return rowOf("volume", model.claims.get(id)?.volume ?? "");
  }
}

function close() {
  inspector.hide();
  selected = null;
  delete document.body.dataset.inspecting;
  topology.mark("");
  overview.update(overview.topology, "");
  waiting.update(model, "");
  history.replaceState(null, "", "/");
  const back = document.querySelector(opener) ?? byId("tree");
  back.focus({ preventScroll: true });
}

// Where the focus returns to when details are closed. Lists are drawn anew meanwhile, so elements are found again by
// what they stand for; after a search the focus moves to the tree, at what was found.
function wayBack(element) {
  return element?.dataset?.pod ? `[data-pod="${CSS.escape(element.dataset.pod)}"]` : "#tree";
}

// What was open before a reload.
function restore() {
  const [, kind, ...rest] = decodeURIComponent(location.hash.slice(1)).split("/");
  if (["node", "pod", "claim", "volume"].includes(kind) && rest.length) select(kind, rest.join("/"));
}

document.addEventListener("keydown", (event) => {
  const typing = event.target.closest?.("input");
  if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey && !event.altKey) {
    event.preventDefault();
    search.focus();
  } else if (event.key === "Escape" && inspector.shown) {
    close();
  }
});
byId("connection").addEventListener("click", () => connection.retry());
setInterval(() => waiting.update(model, selected && `${selected.kind} ${selected.id}`), 10_000);

if (connection.token) connection.run();
else showState("refused", "Open the address that mooring printed: it ends in a secret that lets you in.");
