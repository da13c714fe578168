// Find anything by a part of its name. A combobox: arrows choose, Enter opens, Esc leaves.

import { byId, h, replace } from "./dom.js";
import { bytes, count } from "./format.js";

const MOST = 12;
const TABLES = [
  ["node", "nodes"],
  ["pod", "pods"],
  ["group", "groups"],
  ["claim", "claims"],
  ["volume", "volumes"],
];

export class Search {
  constructor({ model, onSelect }) {
    this.model = model;
    this.onSelect = onSelect;
    this.input = byId("search");
    this.list = byId("found");
    this.found = [];
    this.chosen = 0;
    this.input.addEventListener("input", () => this.look());
    this.input.addEventListener("focus", () => this.look());
    this.input.addEventListener("blur", () => setTimeout(() => this.close(), 120));
    this.input.addEventListener("keydown", (event) => this.key(event));
    this.list.addEventListener("mousedown", (event) => {
      const index = event.target.closest("[data-index]")?.dataset.index;
      if (index !== undefined) {
        event.preventDefault();
        this.choose(Number(index));
      }
    });
  }

  focus() {
    this.input.focus();
    this.input.select();
  }

  look() {
    const wanted = this.input.value.trim().toLowerCase();
    if (!wanted) {
      this.close();
      return;
    }
    const all = [];
    for (const [kind, table] of TABLES) {
      for (const row of this.model[table].values()) {
        const rank = ranked(row.id.toLowerCase(), wanted);
        if (rank < 3) all.push({ kind, row, rank });
      }
    }
    all.sort((a, b) => a.rank - b.rank || a.row.id.length - b.row.id.length || (a.row.id < b.row.id ? -1 : 1));
    this.found = all.slice(0, MOST);
    this.chosen = 0;
    this.show(all.length);
  }

  show(total) {
    replace(
      this.list,
      this.found.map((one, index) =>
        h(
          "li",
          {
            id: `found-${index}`,
            role: "option",
            "aria-selected": String(index === this.chosen),
            data: { index },
          },
          h("span", { class: "kind" }, one.kind),
          h("b", {}, one.row.id),
          h("span", { class: "beside" }, beside(one)),
        ),
      ),
      total === 0 && h("li", { class: "empty" }, "Nothing has this in its name."),
      total > MOST && h("li", { class: "more" }, `and ${count(total - MOST)} more`),
    );
    this.list.hidden = false;
    this.input.setAttribute("aria-expanded", "true");
    this.input.setAttribute("aria-activedescendant", this.found.length ? `found-${this.chosen}` : "");
  }

  move(step) {
    const options = this.list.querySelectorAll("[role=option]");
    if (!options.length) return;
    options[this.chosen].setAttribute("aria-selected", "false");
    this.chosen = (this.chosen + step + options.length) % options.length;
    options[this.chosen].setAttribute("aria-selected", "true");
    options[this.chosen].scrollIntoView({ block: "nearest" });
    this.input.setAttribute("aria-activedescendant", `found-${this.chosen}`);
  }

  choose(index) {
    const one = this.found[index];
    if (!one) return;
    this.input.value = "";
    this.close();
    this.onSelect(one.kind, one.row.id);
  }

  close() {
    this.list.hidden = true;
    this.found = [];
    this.input.setAttribute("aria-expanded", "false");
    this.input.removeAttribute("aria-activedescendant");
  }

  key(event) {
    const actions = {
      ArrowDown: () => this.move(1),
      ArrowUp: () => this.move(-1),
      Enter: () => this.choose(this.chosen),
      Escape: () => {
        this.input.value = "";
        this.close();
        this.input.blur();
      },
    };
    if (actions[event.key]) {
      event.preventDefault();
      event.stopPropagation();
      actions[event.key]();
    }
  }
}

// The whole name, its beginning, any part; names of a namespace count from after the slash too.
function ranked(id, wanted) {
  const name = id.slice(id.lastIndexOf("/") + 1);
  if (id === wanted || name === wanted) return 0;
  if (name.startsWith(wanted) || id.startsWith(wanted)) return 1;
  return id.includes(wanted) ? 2 : 3;
}

function beside({ kind, row }) {
  switch (kind) {
    case "node":
      return [row.zone, row.rack].filter(Boolean).join(" · ");
    case "pod":
      return row.waiting ? "waits" : (row.node ?? row.phase);
    case "group":
      return row.state;
    default:
      return `${row.phase ?? row.state} · ${bytes(row.size ?? 0)}`;
  }
}
