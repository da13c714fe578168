// The topology as a tree to walk through: zones, racks, nodes. Only rows in sight are in the document, so a thousand
// nodes cost what a screenful costs. The tree has the focus, and tells which row is the active one.

import { bar } from "./bar.js";
import { h, replace } from "./dom.js";
import { bytes, count, plural } from "./format.js";

// From so many nodes on, rows are one line each and the overview appears.
export const MANY = 48;
const BEYOND = 240;
const HEIGHTS = { zone: 38, rack: 28, holder: 46, node: 46, compact: 26 };
const NAME_WIDTH = 156;
const FIGURES_WIDTH = 124;
const PADDING = 16;

export class Topology {
  constructor(element, { onSelect }) {
    this.element = element;
    this.onSelect = onSelect;
    this.folded = new Set();
    this.rows = [];
    this.offsets = [0];
    this.active = "";
    this.selected = "";
    this.chosen = "";
    this.shown = new Map();
    this.canvas = h("div", { class: "rows", role: "presentation" });
    element.append(this.canvas);
    element.addEventListener("scroll", () => this.draw(), { passive: true });
    element.addEventListener("keydown", (event) => this.key(event));
    element.addEventListener("click", (event) => this.click(event));
    element.addEventListener("focus", () => this.focused());
    new ResizeObserver(() => this.draw()).observe(element);
  }

  update(topology, nodeCount) {
    this.topology = topology;
    this.compact = nodeCount > MANY;
    this.relist();
  }

  relist() {
    this.rows = [...list(this.topology, this.folded)];
    this.offsets = [0];
    for (const row of this.rows) this.offsets.push(this.offsets.at(-1) + this.height(row));
    this.canvas.style.height = `${this.offsets.at(-1)}px`;
    if (!this.rows.some((row) => row.id === this.active)) this.active = this.rows[0]?.id ?? "";
    this.draw();
  }

  height(row) {
    return this.compact && (row.kind === "node" || row.kind === "holder") ? HEIGHTS.compact : HEIGHTS[row.kind];
  }

  draw() {
    const { scrollTop, clientHeight, clientWidth } = this.element;
    const kept = new Map();
    const first = this.rowAt(scrollTop - BEYOND);
    for (let i = first; i < this.rows.length && this.offsets[i] < scrollTop + clientHeight + BEYOND; i += 1) {
      this.place(i, clientWidth, kept);
    }
    // The active row is always there, for those who hear the page instead of seeing it.
    const active = this.rows.findIndex((row) => row.id === this.active);
    if (active >= 0 && !kept.has(this.active)) this.place(active, clientWidth, kept);
    for (const [id, { element }] of this.shown) if (!kept.has(id)) element.remove();
    this.shown = kept;
    for (const block of this.canvas.querySelectorAll("[data-volume]")) {
      block.classList.toggle("chosen", block.dataset.volume === this.chosen);
    }
    this.element.setAttribute("aria-activedescendant", active >= 0 ? elementId(this.active) : "");
  }

  place(index, width, kept) {
    const row = this.rows[index];
    const state = `${row.id === this.active} ${row.id === this.selected} ${width} ${this.compact} ${row.signature}`;
    const known = this.shown.get(row.id);
    let element = known?.element;
    if (known?.state !== state) {
      const made = this.render(row, width);
      if (element) element.replaceWith(made);
      else this.canvas.append(made);
      element = made;
    }
    element.style.top = `${this.offsets[index]}px`;
    kept.set(row.id, { element, state });
  }

  render(row, width) {
    const compact = this.compact && row.kind !== "zone" && row.kind !== "rack";
    const element = h("div", {
      class: `row ${row.kind}${compact ? " compact" : ""}${row.trouble ? " trouble" : ""}`,
      id: elementId(row.id),
      role: "treeitem",
      "aria-level": row.level,
      "aria-setsize": row.size,
      "aria-posinset": row.position,
      "aria-expanded": row.expandable ? String(!this.folded.has(row.id)) : null,
      "aria-selected": String(row.id === this.selected),
      "aria-label": spoken(row),
      data: { row: row.id, active: row.id === this.active ? "yes" : "no" },
    });
    element.style.height = `${this.height(row)}px`;
    const label = h("span", { class: `name level-${row.level}`, title: row.label }, row.label);
    if (row.note) label.append(h("em", {}, row.note));
    if (row.kind === "zone" || row.kind === "rack") {
      element.append(h("span", { class: "fold", "aria-hidden": "true" }), label, this.header(row, width));
      return element;
    }
    const scale = this.topology.widest[row.scale] ?? 0;
    const space = Math.max(80, width - NAME_WIDTH - FIGURES_WIDTH - 2 * PADDING - 12);
    const gaps = Math.max(0, this.topology.gaps[row.scale] - 1);
    element.append(
      label,
      bar(row.holder, { scale, width: space, gaps, captions: !compact }),
      h("span", { class: "figures" }, figures(row.holder)),
    );
    return element;
  }

  header(row) {
    const share = row.sum.total ? (row.sum.used / row.sum.total) * 100 : 0;
    const gauge = h(
      "span",
      { class: "gauge", title: `${bytes(row.sum.used)} of ${bytes(row.sum.total)} used` },
      h("i"),
    );
    gauge.firstChild.style.width = `${share}%`;
    const facts = [plural(row.nodes, "node"), plural(row.sum.volumes, "volume"), `${bytes(row.sum.room)} free`];
    if (row.lost) facts.unshift(`${count(row.lost)} not ready`);
    return h("span", { class: "aggregate" }, gauge, h("span", { class: "figures" }, facts.join(" · ")));
  }

  rowAt(offset) {
    let low = 0;
    let high = this.rows.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.offsets[middle + 1] <= offset) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  // Bring a node or a place into sight and make it the active row.
  reveal(id) {
    for (const row of list(this.topology, new Set())) {
      if (row.id !== id) continue;
      for (const ancestor of row.ancestors) this.folded.delete(ancestor);
      this.relist();
      this.activate(id);
      return true;
    }
    return false;
  }

  // Show which row is selected, and which volume in it.
  mark(id, volume = "") {
    this.selected = id;
    this.chosen = volume;
    this.draw();
  }

  activate(id) {
    this.active = id;
    const index = this.rows.findIndex((row) => row.id === id);
    if (index >= 0) {
      const top = this.offsets[index];
      const bottom = this.offsets[index + 1];
      const { scrollTop, clientHeight } = this.element;
      if (top < scrollTop) this.element.scrollTop = Math.max(0, top - 8);
      else if (bottom > scrollTop + clientHeight) this.element.scrollTop = bottom - clientHeight + 8;
    }
    this.draw();
  }

  focused() {
    if (!this.active && this.rows.length) this.active = this.rows[0].id;
    this.draw();
  }

  click(event) {
    const volume = event.target.closest("[data-volume]")?.dataset.volume;
    const id = event.target.closest("[data-row]")?.dataset.row;
    if (!id) return;
    this.active = id;
    if (volume) this.onSelect("volume", volume);
    else this.open(id);
  }

  open(id) {
    const row = this.rows.find((one) => one.id === id);
    if (row?.expandable) this.fold(id, !this.folded.has(id));
    else if (row?.kind === "node") this.onSelect("node", row.label);
    else if (row) this.onSelect("place", row.id);
  }

  fold(id, folded) {
    if (folded) this.folded.add(id);
    else this.folded.delete(id);
    this.relist();
  }

  key(event) {
    const index = this.rows.findIndex((row) => row.id === this.active);
    const row = this.rows[index];
    if (!row || event.ctrlKey || event.metaKey || event.altKey) return;
    const page = Math.max(1, Math.floor(this.element.clientHeight / this.height({ kind: "node" })) - 1);
    const go = (to) => this.activate(this.rows[Math.min(Math.max(to, 0), this.rows.length - 1)].id);
    const actions = {
      ArrowDown: () => go(index + 1),
      ArrowUp: () => go(index - 1),
      PageDown: () => go(index + page),
      PageUp: () => go(index - page),
      Home: () => go(0),
      End: () => go(this.rows.length - 1),
      ArrowRight: () => (row.expandable && this.folded.has(row.id) ? this.fold(row.id, false) : go(index + 1)),
      ArrowLeft: () => {
        if (row.expandable && !this.folded.has(row.id)) this.fold(row.id, true);
        else if (row.ancestors.length) this.activate(row.ancestors.at(-1));
      },
      Enter: () => this.open(row.id),
      " ": () => this.open(row.id),
    };
    if (actions[event.key]) {
      event.preventDefault();
      actions[event.key]();
    }
  }
}

const elementId = (id) => `row-${id}`;

function figures(holder) {
  if (!holder || !holder.total) return "no storage";
  return `${bytes(holder.room)} free of ${bytes(holder.total)}`;
}

function spoken(row) {
  const facts =
    row.kind === "zone" || row.kind === "rack"
      ? `${plural(row.nodes, "node")}, ${figures(row.sum)}`
      : figures(row.holder);
  const volumes = plural((row.sum ?? row.holder)?.volumes ?? 0, "volume");
  return [row.label, row.note, facts, volumes].filter(Boolean).join(", ");
}

function* list(topology, folded) {
  const { holders, zones } = topology;
  const shared = [
    ["nowhere", "No node reaches"],
    ["cluster", "Whole cluster"],
  ].filter(([key]) => holders.has(key));
  const size = shared.length + zones.length;
  let position = 1;
  for (const [key, label] of shared) {
    const about = { id: key, kind: "holder", level: 1, label, scale: key, size, position, trouble: key === "nowhere" };
    yield holderRow(about, holders.get(key), []);
    position += 1;
  }
  for (const zone of zones) {
    const id = `z:${zone.name}`;
    const lost = zone.nodes - zone.ready;
    yield {
      id,
      kind: "zone",
      level: 1,
      label: zone.name || "no zone",
      sum: zone.sum,
      nodes: zone.nodes,
      lost,
      expandable: true,
      ancestors: [],
      size,
      position,
      signature: `${folded.has(id)} ${zone.nodes} ${lost} ${Object.values(zone.sum)}`,
    };
    position += 1;
    if (!folded.has(id)) yield* inZone(zone, id, holders, folded);
  }
}

function* inZone(zone, id, holders, folded) {
  const size = zone.racks.length + (zone.holder ? 1 : 0);
  if (zone.holder) {
    const about = {
      id: `zone:${zone.name}`,
      kind: "holder",
      level: 2,
      label: "shared by the zone",
      scale: "zone",
      size,
      position: 1,
    };
    yield holderRow(about, zone.holder, [id]);
  }
  for (const rack of zone.racks) {
    const named = rack.name !== "";
    const rackId = `r:${zone.name}/${rack.name}`;
    const ancestors = named ? [id, rackId] : [id];
    if (named) {
      yield {
        id: rackId,
        kind: "rack",
        level: 2,
        label: rack.name,
        sum: rack.sum,
        nodes: rack.nodes.length,
        lost: 0,
        expandable: true,
        ancestors: [id],
        size,
        position: zone.racks.indexOf(rack) + 1,
        signature: `${folded.has(rackId)} ${rack.nodes.length} ${Object.values(rack.sum)}`,
      };
      if (folded.has(rackId)) continue;
    }
    if (rack.holder) {
      const about = {
        id: `rack:${zone.name}/${rack.name}`,
        kind: "holder",
        level: 3,
        label: "shared by the rack",
        scale: "rack",
      };
      yield holderRow({ ...about, size: rack.nodes.length, position: 1 }, rack.holder, ancestors);
    }
    for (const [index, node] of rack.nodes.entries()) {
      const note = node.ready === false ? "not ready" : node.cordoned ? "cordoned" : "";
      const about = {
        id: `node:${node.id}`,
        kind: "node",
        level: named ? 3 : 2,
        label: node.id,
        note,
        trouble: node.ready === false,
        scale: "node",
        size: rack.nodes.length,
        position: index + 1,
      };
      yield holderRow(about, holders.get(`node:${node.id}`), ancestors);
    }
  }
}

function holderRow(about, holder, ancestors) {
  return {
    ...about,
    holder,
    ancestors,
    get signature() {
      return `${about.note} ${holderSignature(holder)}`;
    },
  };
}

function holderSignature(holder) {
  if (!holder) return "";
  return holder.pools
    .map(
      (pool) =>
        `${pool.label}:${pool.room}:${pool.volumes.map((v) => `${v.id}${v.state}${v.size}${v.claim}${v.deleting}`)}`,
    )
    .join();
}

export function showScale(element, widest) {
  replace(element, widest.node ? `A full bar is ${bytes(widest.node)}, the largest node` : "");
}
