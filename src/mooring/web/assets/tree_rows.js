// The rows of the tree: zones, racks and nodes, and what they share. What a row holds is looked up when it is drawn.

export function* list(topology, folded) {
  const { holders, zones } = topology;
  const shared = [
    ["nowhere", "No node reaches"],
    ["cluster", "Whole cluster"],
  ].filter(([key]) => holders.has(key));
  const size = shared.length + zones.length;
  let position = 1;
  for (const [key, label] of shared) {
    const about = { id: key, kind: "holder", level: 1, label, scale: key, size, position, trouble: key === "nowhere" };
    yield holderRow(about, holders, key, []);
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
      get sum() {
        return zone.sum;
      },
      nodes: zone.nodes,
      lost,
      expandable: true,
      ancestors: [],
      size,
      position,
      get signature() {
        return `${folded.has(id)} ${zone.nodes} ${lost} ${Object.values(zone.sum)}`;
      },
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
    yield holderRow(about, holders, about.id, [id]);
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
        get sum() {
          return rack.sum;
        },
        nodes: rack.nodes.length,
        lost: 0,
        expandable: true,
        ancestors: [id],
        size,
        position: zone.racks.indexOf(rack) + 1,
        get signature() {
          return `${folded.has(rackId)} ${rack.nodes.length} ${Object.values(rack.sum)}`;
        },
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
      yield holderRow({ ...about, size: rack.nodes.length, position: 1 }, holders, about.id, ancestors);
    }
    for (const [index, node] of rack.nodes.entries()) {
      const note = node.lost ? "lost" : node.ready === false ? "not ready" : node.cordoned ? "cordoned" : "";
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
      yield holderRow(about, holders, about.id, ancestors);
    }
  }
}

function holderRow(about, holders, key, ancestors) {
  about.ancestors = ancestors;
  return Object.defineProperties(about, {
    holder: { get: () => holders.get(key) },
    signature: { get: () => `${about.note} ${holderSignature(holders.get(key))}` },
  });
}

// Which zones and racks share storage of their own.
export function outline({ holders, zones }) {
  const shared = zones.map((zone) => [Boolean(zone.holder), zone.racks.map((rack) => Boolean(rack.holder))]);
  return `${holders.has("nowhere")} ${holders.has("cluster")} ${shared}`;
}

function holderSignature(holder) {
  if (!holder) return "";
  return `${holder.lost} ${holder.pools
    .map(
      (pool) =>
        `${pool.label}:${pool.room}:${pool.volumes.map((v) => `${v.id}${v.state}${v.size}${v.claim}${v.deleting}`)}`,
    )
    .join()}`;
}
