// The topology as a tree to walk through: zones, racks, nodes. Only rows in sight are in the document, so a thousand
// nodes cost what a screenful costs. The tree has the focus, and tells which row is the active one.

import { bar } from "./bar.js";
import { h } from "./dom.js";
import { bytes, count, plural } from "./format.js";
import { list, outline } from "./tree_rows.js";

// From so many nodes on, rows are one line each and the overview appears.
export const MANY = 48;
const BEYOND = 240;
const HEIGHTS = { zone: 38, rack: 28, holder: 46, node: 46, compact: 26 };
const NAME_WIDTH = 156;
const FIGURES_WIDTH = 124;
const PADDING = 16;
// Below this width the bar of a row is on a line of its own.
const NARROW = 560;
const NARROW_HEIGHTS = { zone: 44, rack: 32, holder: 62, node: 62, compact: 44 };

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
    new ResizeObserver(() => this.resized()).observe(element);
  }

  update(topology, nodeCount) {
    // Rows look their storage up when they are drawn: they are listed again only where others are to be seen.
    const same = this.topology?.zones === topology.zones && this.outline === outline(topology);
    this.topology = topology;
    this.outline = outline(topology);
    if (same && this.compact === nodeCount > MANY) {
      this.draw();
      return;
    }
    this.compact = nodeCount > MANY;
    this.relist();
  }

  resized() {
    const narrow = this.element.clientWidth < NARROW;
    if (!this.topology || narrow === this.narrow) {
      this.draw();
      return;
    }
    this.relist();
  }

  relist() {
    this.narrow = this.element.clientWidth < NARROW;
    this.element.classList.toggle("narrow", this.narrow);
    this.rows = [...list(this.topology, this.folded)];
    this.offsets = [0];
    for (const row of this.rows) this.offsets.push(this.offsets.at(-1) + this.height(row));
    this.canvas.style.height = `${this.offsets.at(-1)}px`;
    if (!this.rows.some((row) => row.id === this.active)) this.active = this.rows[0]?.id ?? "";
    this.draw();
  }

  height(row) {
    const heights = this.narrow ? NARROW_HEIGHTS : HEIGHTS;
    return this.compact && (row.kind === "node" || row.kind === "holder") ? heights.compact : heights[row.kind];
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
    const scale = `${this.topology.widest[row.scale]} ${this.topology.gaps[row.scale]}`;
    const marks = `${row.id === this.active} ${row.id === this.selected}`;
    const state = `${marks} ${width} ${scale} ${this.compact} ${this.narrow} ${row.signature}`;
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
    const beside = this.narrow ? 0 : NAME_WIDTH + FIGURES_WIDTH + 12;
    const space = Math.max(80, width - beside - 2 * PADDING);
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
  if (holder.lost) return `${bytes(holder.total)} out of reach`;
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

export function showScale(element, widest) {
  const words = widest.node ? `A full bar is ${bytes(widest.node)}, the largest node` : "";
  if (element.textContent !== words) element.textContent = words;
}
