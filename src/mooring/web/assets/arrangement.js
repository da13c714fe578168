// Zones, racks and nodes with the storage they hold, for one choice of filters. What is touched is made again when it
// is next asked for; everything else stays as it is.

import { isActive, poolMatches, volumeMatches } from "./filters.js";
import { byName, compare } from "./order.js";

const ORDER = { "rolling back": 0, held: 1, bound: 2, released: 3, failed: 3, free: 4 };

export class Arrangement {
  constructor(model, filters) {
    this.model = model;
    this.filters = filters;
    this.holders = new Map();
    // Holders to make again; all of them at first.
    this.stale = null;
    this.nodesMoved = true;
    this.zones = [];
    // Moves whenever something in it does.
    this.version = 0;
    this.built = null;
  }

  touch(key) {
    this.stale?.add(key);
  }

  touchNode(id) {
    this.nodesMoved = true;
    this.touch(`node:${id}`);
  }

  build() {
    const stale = this.stale ?? new Set(this.model.places.keys());
    if (this.built && stale.size === 0 && !this.nodesMoved) return this.built;
    for (const key of stale) {
      const holder = this.holder(key);
      if (holder) this.holders.set(key, holder);
      else this.holders.delete(key);
    }
    // Filters leave out nodes that have nothing to show.
    if (this.nodesMoved || isActive(this.filters)) this.zones = this.arrange();
    for (const zone of this.zones) this.total(zone);
    this.stale = new Set();
    this.nodesMoved = false;
    this.version += 1;
    const { holders, zones, version } = this;
    this.built = { holders, zones, version, filtered: isActive(this.filters), ...extremes(holders) };
    return this.built;
  }

  holder(key) {
    const { pools, volumes } = this.model.places.get(key) ?? { pools: new Map(), volumes: new Map() };
    const found = new Map();
    for (const pool of pools.values()) {
      if (pool.place.level === "nowhere" || !poolMatches(pool, this.filters)) continue;
      const one = poolIn(found, pool);
      // Classes that share a pool each tell how much of it they could have: the largest is what there is.
      if (!one.source || (pool.free ?? 0) > one.room) {
        one.room = pool.free ?? 0;
        one.source = pool.id;
      }
    }
    for (const volume of volumes.values()) {
      if (volumeMatches(volume, this.filters)) poolIn(found, volume).volumes.push(volume);
    }
    return found.size ? settled(key, found, key.startsWith("node:") && this.model.isLost(key.slice(5))) : null;
  }

  arrange() {
    const zones = new Map();
    const narrowed = this.filters.class || this.filters.state;
    for (const node of this.model.nodes.values()) {
      if (this.filters.zone && node.zone !== this.filters.zone) continue;
      if (narrowed && !this.holders.has(`node:${node.id}`)) continue;
      const name = node.zone ?? "";
      if (!zones.has(name)) zones.set(name, { name, racks: new Map(), nodes: 0, ready: 0 });
      const zone = zones.get(name);
      const rack = node.rack ?? "";
      if (!zone.racks.has(rack)) zone.racks.set(rack, { name: rack, zone: name, nodes: [] });
      zone.racks.get(rack).nodes.push(node);
      zone.nodes += 1;
      zone.ready += node.ready === false ? 0 : 1;
    }
    const sorted = [...zones.values()].sort(byName);
    for (const zone of sorted) {
      zone.racks = [...zone.racks.values()].sort(byName);
      for (const rack of zone.racks) rack.nodes.sort(byName);
    }
    return sorted;
  }

  total(zone) {
    zone.holder = this.holders.get(`zone:${zone.name}`);
    for (const rack of zone.racks) {
      rack.holder = this.holders.get(`rack:${zone.name}/${rack.name}`);
      rack.sum = sum([rack.holder]);
      for (const node of rack.nodes) add(rack.sum, this.holders.get(`node:${node.id}`));
    }
    zone.sum = sum([zone.holder, ...zone.racks.map((rack) => rack.sum)]);
  }
}

function poolIn(pools, row) {
  const key = `${row.driver ?? ""}|${row.pool ?? ""}`;
  if (!pools.has(key)) {
    const label = row.pool || row.driver || row.storageClass || "volumes";
    pools.set(key, { label, made: Boolean(row.driver), room: 0, source: "", volumes: [] });
  }
  return pools.get(key);
}

// What is on a lost node is not free, neither its pools nor its unclaimed volumes.
function settled(key, found, lost) {
  const pools = [...found.values()].sort((a, b) => b.made - a.made || compare(a.label, b.label));
  const holder = { key, lost, unsettled: false, volumes: 0, used: 0, room: 0, total: 0 };
  for (const pool of pools) {
    pool.volumes.sort((a, b) => ORDER[a.state] - ORDER[b.state] || byName(a, b));
    pool.used = pool.idle = 0;
    for (const volume of pool.volumes) {
      pool[volume.state === "free" ? "idle" : "used"] += volume.size ?? 0;
      holder.unsettled ||= volume.state === "held" || volume.state === "rolling back";
    }
    pool.total = pool.used + pool.idle + pool.room;
    pool.free = lost ? 0 : pool.room + pool.idle;
    pool.lost = lost;
    holder.volumes += pool.volumes.length;
    holder.used += pool.used;
    holder.room += pool.free;
    holder.total += pool.total;
  }
  holder.pools = pools.filter((pool) => pool.total > 0);
  return holder;
}

function sum(holders) {
  const all = { volumes: 0, used: 0, room: 0, total: 0 };
  for (const holder of holders) add(all, holder);
  return all;
}

function add(all, holder) {
  if (!holder) return;
  all.volumes += holder.volumes;
  all.used += holder.used;
  all.room += holder.room;
  all.total += holder.total;
}

// What a bar's full width stands for, and how many pools it has to show: the most of each level.
function extremes(holders) {
  const widest = {};
  const gaps = {};
  for (const holder of holders.values()) {
    const level = holder.key.split(":", 1)[0];
    widest[level] = Math.max(widest[level] ?? 0, holder.total);
    gaps[level] = Math.max(gaps[level] ?? 0, holder.pools.length);
  }
  return { widest, gaps };
}
