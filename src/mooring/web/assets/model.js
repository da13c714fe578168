// What is known of the cluster: rows as the server sends them, and what is looked up in them all the time.
//
// `apply` takes a frame and keeps the indexes by the rows that changed, so that a change costs the same in a cluster of
// any size. `Arrangement` makes zones, racks and nodes from them.

import { Arrangement } from "./arrangement.js";
import { NONE, isActive } from "./filters.js";
import { noteChange } from "./history.js";
import { compare } from "./order.js";

const TABLES = ["nodes", "pools", "volumes", "claims", "pods", "groups", "happenings", "notices", "history"];
const UNSETTLED = new Set(["held", "rolling back"]);

export class Model {
  constructor() {
    this.filters = NONE;
    // Between the server's clock and this one's, in seconds.
    this.ahead = 0;
    this.clear();
  }

  clear() {
    for (const table of TABLES) this[table] = new Map();
    this.changed = { claims: null, volumes: null, groups: null };
    this.places = new Map();
    this.users = new Map();
    this.pending = new Set();
    this.states = new Map();
    this.bound = 0;
    this.unsettled = new Map();
    this.unready = new Set();
    this.classes = new Map();
    this.zones = new Map();
    this.whole = new Arrangement(this, NONE);
    this.filtered = isActive(this.filters) ? new Arrangement(this, this.filters) : this.whole;
  }

  filter(filters) {
    this.filters = filters;
    this.changed = { claims: null, volumes: null, groups: null };
    this.filtered = isActive(filters) ? new Arrangement(this, filters) : this.whole;
  }

  apply(frame) {
    if (frame.whole) this.clear();
    if (frame.at) this.ahead = frame.at - Date.now() / 1000;
    const rows = frame.rows ?? {};
    for (const table of TABLES) {
      for (const row of rows[table] ?? []) {
        const before = this[table].get(row.id);
        if (table === "pools" && before) noteChange(this.history, before, row, frame.at);
        if (before) this.index(table, before, -1);
        this[table].set(row.id, row);
        this.index(table, row, 1);
      }
    }
    for (const [table, ids] of Object.entries(frame.gone ?? {})) {
      for (const id of TABLES.includes(table) ? ids : []) {
        const before = this[table].get(id);
        if (before) this.index(table, before, -1);
        this[table].delete(id);
      }
    }
  }

  // Takes a row into the indexes, or out of them with a step of -1.
  index(table, row, step) {
    this.changed[table]?.add(row.id);
    const set = (of, key) => (step > 0 ? of.add(key) : of.delete(key));
    switch (table) {
      case "nodes":
        if (row.ready === false) set(this.unready, row.id);
        tally(this.zones, row.zone, step);
        this.whole.touchNode(row.id);
        this.filtered.touchNode(row.id);
        break;
      case "pools":
      case "volumes":
        if (step > 0) this.place(row)[table].set(row.id, row);
        else this.place(row)[table].delete(row.id);
        tally(this.classes, row.storageClass, step);
        if (table === "volumes") this.count(row, step);
        break;
      case "claims":
        this.bound += row.phase === "Bound" ? step : 0;
        tally(this.classes, row.storageClass, step);
        break;
      case "pods":
        if (row.waiting && !row.deleting) set(this.pending, row.id);
        for (const claim of row.claims ?? []) set(entry(this.users, claim, () => new Set()), row.id);
        break;
    }
  }

  count(volume, step) {
    tally(this.states, volume.state, step);
    // State and place of a claim are those of its volume.
    if (volume.claim) this.changed.claims?.add(volume.claim);
    if (!volume.claim || !UNSETTLED.has(volume.state)) return;
    if (step > 0) this.unsettled.set(volume.claim, volume);
    else this.unsettled.delete(volume.claim);
  }

  place(row) {
    const key = placeKey(row.place);
    this.whole.touch(key);
    this.filtered.touch(key);
    return entry(this.places, key, () => ({ pools: new Map(), volumes: new Map() }));
  }

  get now() {
    return Date.now() / 1000 + this.ahead;
  }

  isLost(node) {
    return this.nodes.get(node)?.lost === true;
  }

  waiting() {
    const pods = [...this.pending].map((id) => this.pods.get(id));
    return pods.sort((a, b) => (a.since ?? 0) - (b.since ?? 0) || compare(a.id, b.id));
  }

  podsUsing(claim) {
    return [...(this.users.get(claim) ?? [])].map((id) => this.pods.get(id));
  }

  podsOn(node) {
    return [...this.pods.values()].filter((pod) => pod.node === node).sort((a, b) => compare(a.id, b.id));
  }

  volumesHeldFor(group) {
    return [...this.volumes.values()].filter((volume) => volume.group === group);
  }

  // Bound and lost as the claim says; a pending one may have a volume that is held for it.
  claimState(claim) {
    if (claim.phase === "Pending") return this.unsettled.get(claim.id)?.state ?? "pending";
    return (claim.phase ?? "pending").toLowerCase();
  }

  // Where a claim's volume is, or is being made.
  claimPlace(claim) {
    const volume = this.volumes.get(claim.volume) ?? this.unsettled.get(claim.id);
    if (volume) return volume.place;
    const node = this.nodes.get(claim.selectedNode ?? "");
    return node ? { level: "node", node: node.id, zone: node.zone, rack: node.rack } : null;
  }

  // The ids of a table's rows that changed since this was last asked; null where all may have.
  takeChanged(table) {
    const changed = this.changed[table];
    this.changed[table] = new Set();
    return changed;
  }

  happeningsAbout(key) {
    return this.timeline().filter((one) => one.about === key);
  }

  // Newest first.
  timeline() {
    return [...this.happenings.values()].sort((a, b) => b.at - a.at);
  }
}

export function placeKey(place) {
  switch (place.level) {
    case "node":
      return `node:${place.node}`;
    case "rack":
      return `rack:${place.zone ?? ""}/${place.rack}`;
    case "zone":
      return `zone:${place.zone}`;
    default:
      return place.level;
  }
}

export function placeWords(place) {
  switch (place.level) {
    case "node":
      return `on ${place.node}`;
    case "rack":
      return `in rack ${place.rack}, from ${place.nodes} nodes`;
    case "zone":
      return `in ${place.zone}, from ${place.nodes} ${place.nodes === 1 ? "node" : "nodes"}`;
    case "cluster":
      return `from ${place.nodes} nodes`;
    default:
      return "from no node";
  }
}

function tally(counts, key, step) {
  if (!key) return;
  const count = (counts.get(key) ?? 0) + step;
  if (count > 0) counts.set(key, count);
  else counts.delete(key);
}

export function entry(map, key, make) {
  let found = map.get(key);
  if (found === undefined) {
    found = make();
    map.set(key, found);
  }
  return found;
}
