// Filters by class, zone and state: what they let through, and the fields to choose them in.

import { byId, h, replace } from "./dom.js";
import { compare } from "./order.js";

export const NONE = { class: "", zone: "", state: "" };
export const FIELDS = Object.keys(NONE);
const STATES = ["bound", "held", "rolling back", "pending", "lost", "released", "failed", "free"];

export const isActive = (filters) => FIELDS.some((name) => filters[name]);

const passes = (wanted, value) => !wanted || wanted === (value ?? "");

// A pool has no state: it is left out where one is asked for.
export function poolMatches(pool, filters) {
  return !filters.state && passes(filters.class, pool.storageClass) && passes(filters.zone, pool.place.zone);
}

export function volumeMatches(volume, filters) {
  return (
    passes(filters.state, volume.state) &&
    passes(filters.class, volume.storageClass) &&
    passes(filters.zone, volume.place.zone)
  );
}

export function claimMatches(claim, model, filters) {
  return (
    passes(filters.class, claim.storageClass) &&
    (!filters.state || filters.state === model.claimState(claim)) &&
    (!filters.zone || filters.zone === model.claimPlace(claim)?.zone)
  );
}

export class Filters {
  constructor({ onChange }) {
    this.onChange = onChange;
    this.element = byId("filters");
    this.selects = new Map();
    for (const name of FIELDS) {
      const select = h("select", { id: `filter-${name}`, onchange: () => this.changed() });
      this.selects.set(name, select);
      this.element.append(h("label", {}, h("span", { class: "spoken" }, TITLES[name]), select));
    }
    this.reset = h("button", { type: "button", class: "reset", onclick: () => onChange(NONE) }, "Show all");
    this.element.append(this.reset);
    this.signature = "";
  }

  changed() {
    this.onChange(Object.fromEntries([...this.selects].map(([name, select]) => [name, select.value])));
  }

  // What can be chosen is what there is.
  update(model, filters) {
    const named = (counts) => [...counts.keys()].sort(compare);
    const choices = { class: named(model.classes), zone: named(model.zones), state: STATES };
    const signature = JSON.stringify([choices, filters]);
    if (signature === this.signature) return;
    this.signature = signature;
    for (const [name, select] of this.selects) {
      const known = choices[name];
      const missing = filters[name] && !known.includes(filters[name]) ? [filters[name]] : [];
      const options = [h("option", { value: "" }, `all ${PLURALS[name]}`)];
      for (const value of [...known, ...missing]) options.push(h("option", { value }, value));
      replace(select, options);
      select.value = filters[name];
    }
    this.reset.hidden = !isActive(filters);
  }
}

const TITLES = { class: "Class", zone: "Zone", state: "State" };
const PLURALS = { class: "classes", zone: "zones", state: "states" };
