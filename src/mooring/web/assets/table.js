// A table of any length: only rows in sight are in the document, and a row is made again only where it changed. One
// row is in the tab order; arrows move through the others.

import { h } from "./dom.js";
import { sortKey } from "./order.js";

const ROW = 34;
const BEYOND = 10;
// With more changes at once, all rows are sorted again.
const FEW = 400;

// A column has a `key` for programs, a `label` for people, a plain `value` of a row, and `show` where that is not what
// people see. The first column opens the row.
export class Table {
  constructor(element, { title, kind, columns, rank = () => "", empty, onSelect }) {
    this.element = element;
    this.columns = columns;
    this.rank = rank;
    this.empty = empty;
    this.kind = kind;
    this.onSelect = onSelect;
    // In order, with the keys they are ordered by; and those keys by id.
    this.rows = [];
    this.keys = new Map();
    this.shown = new Map();
    this.active = 0;
    this.selected = "";
    this.above = h("tr", { class: "spacer", "aria-hidden": "true" }, h("td", { colspan: columns.length }));
    this.below = h("tr", { class: "spacer", "aria-hidden": "true" }, h("td", { colspan: columns.length }));
    this.body = h("tbody", {}, this.above, this.below);
    const heads = columns.map((one) => h("th", { scope: "col", class: `c-${one.key}` }, one.label));
    this.table = h("table", { class: `table ${kind}s` }, h("caption", { class: "spoken" }, title));
    this.table.append(h("thead", {}, h("tr", {}, heads)), this.body);
    this.note = h("p", { class: "empty", hidden: true });
    this.scroll = h("div", { class: "table-scroll" }, this.table, this.note);
    element.append(this.scroll);
    this.scroll.addEventListener("scroll", () => this.draw(), { passive: true });
    this.body.addEventListener("keydown", (event) => this.key(event));
    this.body.addEventListener("click", (event) => {
      const id = event.target.closest("[data-id]")?.dataset.id;
      if (id) onSelect(kind, id);
    });
    new ResizeObserver(() => this.draw()).observe(this.scroll);
  }

  // `source` has all rows by id, of which `matches` are shown; `changed` are the ids since last time, null for all.
  update(source, matches, changed, selected) {
    this.selected = selected;
    if (changed === null || changed.size > FEW) this.sort(source, matches);
    else for (const id of changed) this.move(id, source.get(id), matches);
    this.active = Math.min(this.active, Math.max(0, this.rows.length - 1));
    this.table.setAttribute("aria-rowcount", this.rows.length + 1);
    this.note.hidden = this.rows.length > 0;
    this.note.textContent = this.empty;
    this.draw();
  }

  sort(source, matches) {
    this.rows = [];
    for (const row of source.values()) if (matches(row)) this.rows.push({ row, key: this.keyOf(row) });
    this.rows.sort((a, b) => (a.key < b.key ? -1 : 1));
    this.keys = new Map(this.rows.map(({ row, key }) => [row.id, key]));
  }

  move(id, row, matches) {
    const known = this.keys.get(id);
    if (known !== undefined) {
      this.rows.splice(this.find(known), 1);
      this.keys.delete(id);
    }
    if (!row || !matches(row)) return;
    const key = this.keyOf(row);
    this.rows.splice(this.find(key), 0, { row, key });
    this.keys.set(id, key);
  }

  keyOf(row) {
    return `${this.rank(row)} ${sortKey(row.id)} ${row.id}`;
  }

  // The place of a key, or where it belongs.
  find(key) {
    let [low, high] = [0, this.rows.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.rows[middle].key < key) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  draw() {
    if (!this.scroll.clientHeight) return;
    const { scrollTop, clientHeight } = this.scroll;
    const first = Math.max(0, Math.floor(scrollTop / ROW) - BEYOND);
    const last = Math.min(this.rows.length, Math.ceil((scrollTop + clientHeight) / ROW) + BEYOND);
    height(this.above, first * ROW);
    height(this.below, (this.rows.length - last) * ROW);
    const kept = new Map();
    let after = this.above;
    for (let index = first; index < last; index += 1) {
      const { row } = this.rows[index];
      const state = `${index} ${index === this.active} ${row.id === this.selected} ${this.values(row)}`;
      const known = this.shown.get(row.id);
      const element = known?.state === state ? known.element : this.render(row, index);
      if (known && known.element !== element) known.element.replaceWith(element);
      if (after.nextSibling !== element) after.after(element);
      kept.set(row.id, { element, state });
      after = element;
    }
    for (const [id, { element }] of this.shown) if (!kept.has(id)) element.remove();
    this.shown = kept;
  }

  values(row) {
    return this.columns.map((one) => one.value(row)).join(" ");
  }

  render(row, index) {
    const cells = this.columns.map((one, column) => {
      const content = one.show ? one.show(row) : one.value(row);
      const name = { class: `c-${one.key}` };
      if (column > 0) return h("td", name, content);
      const tabindex = index === this.active ? 0 : -1;
      const title = row.id;
      const open = h("button", { type: "button", class: "link", title, tabindex, data: { id: row.id } }, content);
      return h("th", { ...name, scope: "row" }, open);
    });
    const current = row.id === this.selected ? "true" : null;
    return h("tr", { "aria-rowindex": index + 2, "aria-current": current, data: { row: row.id } }, cells);
  }

  key(event) {
    const page = Math.max(1, Math.floor(this.scroll.clientHeight / ROW) - 2);
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
    if (!(event.key in steps) || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    this.active = Math.min(Math.max(this.active + steps[event.key], 0), this.rows.length - 1);
    const top = this.active * ROW;
    const { scrollTop, clientHeight } = this.scroll;
    if (top < scrollTop) this.scroll.scrollTop = top;
    else if (top + 2 * ROW > scrollTop + clientHeight) this.scroll.scrollTop = top + 2 * ROW - clientHeight;
    this.draw();
    this.shown.get(this.rows[this.active].row.id)?.element.querySelector("button").focus({ preventScroll: true });
  }
}

function height(spacer, pixels) {
  const wanted = `${pixels}px`;
  if (spacer.style.height !== wanted) spacer.style.height = wanted;
}

