// What is known of the cluster: rows as the server sends them, and the topology that follows from them.
//
// `apply` takes a frame, `topology` builds zones, racks and nodes with what they hold. It is built as a whole: with
// thousands of rows that takes a few milliseconds, and nothing can get out of step.

const TABLES = ["nodes", "pools", "volumes", "claims", "pods", "happenings", "notices"];

export class Model {
  constructor() {
    this.clear();
  }

  clear() {
    for (const table of TABLES) this[table] = new Map();
  }

  apply(frame) {
    if (frame.whole) this.clear();
    for (const [table, rows] of Object.entries(frame.rows ?? {})) {
      const held = this[table];
      if (held) for (const row of rows) held.set(row.id, row);
    }
    for (const [table, ids] of Object.entries(frame.gone ?? {})) {
      const held = this[table];
      if (held) for (const id of ids) held.delete(id);
    }
  }

  waiting() {
    const pods = [...this.pods.values()].filter((pod) => pod.waiting && !pod.deleting);
    return pods.sort((a, b) => (a.since ?? 0) - (b.since ?? 0) || compare(a.id, b.id));
  }

  podsUsing(claim) {
    return [...this.pods.values()].filter((pod) => pod.claims?.includes(claim));
  }

  podsOn(node) {
    return [...this.pods.values()].filter((pod) => pod.node === node).sort(byName);
  }

  happeningsAbout(key) {
    return this.timeline().filter((one) => one.about === key);
  }

  // Newest first.
  timeline() {
    return [...this.happenings.values()].sort((a, b) => b.at - a.at);
  }

  topology() {
    const holders = new Map();
    const holder = (key) => {
      if (!holders.has(key)) holders.set(key, { key, pools: new Map(), volumes: 0, used: 0, room: 0, total: 0 });
      return holders.get(key);
    };
    for (const pool of this.pools.values()) {
      if (pool.place.level === "nowhere") continue;
      const found = poolIn(holder(placeKey(pool.place)), pool);
      // Classes that share a pool each tell how much of it they could have: the largest is what there is.
      found.room = Math.max(found.room, pool.free ?? 0);
    }
    for (const volume of this.volumes.values()) {
      poolIn(holder(placeKey(volume.place)), volume).volumes.push(volume);
    }
    for (const one of holders.values()) settle(one);
    const { widest, gaps } = extremes(holders);
    return { holders, zones: this.zones(holders), widest, gaps };
  }

  zones(holders) {
    const zones = new Map();
    for (const node of this.nodes.values()) {
      const zone = entry(zones, node.zone ?? "", () => ({
        name: node.zone ?? "",
        racks: new Map(),
        nodes: 0,
        ready: 0,
      }));
      const rack = entry(zone.racks, node.rack ?? "", () => ({ name: node.rack ?? "", zone: zone.name, nodes: [] }));
      rack.nodes.push(node);
      zone.nodes += 1;
      zone.ready += node.ready === false ? 0 : 1;
    }
    const sorted = [...zones.values()].sort(byName);
    for (const zone of sorted) {
      zone.racks = [...zone.racks.values()].sort(byName);
      zone.holder = holders.get(`zone:${zone.name}`);
      for (const rack of zone.racks) {
        rack.nodes.sort(byName);
        rack.holder = holders.get(`rack:${zone.name}/${rack.name}`);
        rack.sum = sum([rack.holder, ...rack.nodes.map((node) => holders.get(`node:${node.id}`))]);
      }
      zone.sum = sum([zone.holder, ...zone.racks.map((rack) => rack.sum)]);
    }
    return sorted;
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

const ORDER = { "rolling back": 0, held: 1, bound: 2, released: 3, failed: 3, free: 4 };

// node-9 before node-10. Names are made comparable once: thousands are sorted for every drawing, and collators are
// slow.
const sortable = new Map();
const MOST_SORTABLE = 200_000;

function sortKey(name) {
  let key = sortable.get(name);
  if (key === undefined) {
    if (sortable.size > MOST_SORTABLE) sortable.clear();
    key = name.replace(/\d+/g, (digits) => digits.padStart(12, "0"));
    sortable.set(name, key);
  }
  return key;
}

export function compare(a, b) {
  const [left, right] = [sortKey(a), sortKey(b)];
  return left < right ? -1 : left > right ? 1 : 0;
}
export const byName = (a, b) => compare(a.id ?? a.name, b.id ?? b.name);

function poolIn(holder, row) {
  const key = `${row.driver ?? ""}|${row.pool ?? ""}`;
  return entry(holder.pools, key, () => ({
    label: row.pool || row.driver || row.storageClass || "volumes",
    made: Boolean(row.driver),
    room: 0,
    volumes: [],
  }));
}

function settle(holder) {
  const pools = [...holder.pools.values()].sort((a, b) => b.made - a.made || compare(a.label, b.label));
  for (const pool of pools) {
    pool.volumes.sort((a, b) => ORDER[a.state] - ORDER[b.state] || byName(a, b));
    const sizes = (wanted) => pool.volumes.filter(wanted).reduce((all, one) => all + (one.size ?? 0), 0);
    pool.used = sizes((one) => one.state !== "free");
    pool.idle = sizes((one) => one.state === "free");
    pool.total = pool.used + pool.idle + pool.room;
  }
  holder.pools = pools.filter((pool) => pool.total > 0);
  holder.volumes = pools.reduce((all, pool) => all + pool.volumes.length, 0);
  holder.used = pools.reduce((all, pool) => all + pool.used, 0);
  holder.room = pools.reduce((all, pool) => all + pool.room + pool.idle, 0);
  holder.total = holder.used + holder.room;
}

function sum(holders) {
  const all = { volumes: 0, used: 0, room: 0, total: 0 };
  for (const holder of holders) {
    if (holder) for (const name of Object.keys(all)) all[name] += holder[name];
  }
  return all;
}

// What a bar's full width stands for, and how many pools it has to show: the most of each level.
function extremes(holders) {
  const widest = {};
  const gaps = {};
  for (const holder of holders.values()) {
    const level = holder.key.split(":")[0];
    widest[level] = Math.max(widest[level] ?? 0, holder.total);
    gaps[level] = Math.max(gaps[level] ?? 0, holder.pools.length);
  }
  return { widest, gaps };
}

function entry(map, key, make) {
  let found = map.get(key);
  if (found === undefined) {
    found = make();
    map.set(key, found);
  }
  return found;
}
