// The views beside the topology: tables of claims, volumes and groups, and what each of them exports.

import { stateClass } from "./bar.js";
import { byId, h } from "./dom.js";
import { claimMatches, volumeMatches } from "./filters.js";
import { age, bytes } from "./format.js";
import { Table } from "./table.js";

const nameOf = (id) => id.slice(id.indexOf("/") + 1);
const namespaceOf = (id) => id.split("/")[0];
const tag = (state) => h("span", { class: `state ${stateClass(state)}-state` }, state);
const where = (place) => place?.node || (place?.rack && `rack ${place.rack}`) || place?.zone || "";

const RANKS = { lost: 0, "rolling back": 1, held: 2, pending: 3, failed: 4, released: 5, bound: 6, free: 7 };
const GROUP_RANKS = { Committed: 9 };

const name = (label) => ({ key: "name", label, value: (row) => nameOf(row.id) });
const namespace = { key: "namespace", label: "Namespace", value: (row) => namespaceOf(row.id) };
const size = {
  key: "bytes",
  label: "Size",
  value: (row) => row.size ?? 0,
  show: (row) => bytes(row.size ?? 0),
};
const storageClass = { key: "class", label: "Class", value: (row) => row.storageClass ?? "" };

const claimColumns = (model) => [
  name("Claim"),
  namespace,
  {
    key: "state",
    label: "State",
    value: (row) => model.claimState(row),
    show: (row) => tag(model.claimState(row)),
  },
  size,
  storageClass,
  { key: "zone", label: "Zone", value: (row) => model.claimPlace(row)?.zone ?? "" },
  { key: "where", label: "Where", value: (row) => where(model.claimPlace(row)) },
  { key: "pods", label: "Pods", value: (row) => model.podsUsing(row.id).map((pod) => nameOf(pod.id)).sort().join(" ") },
  { key: "volume", label: "Volume", value: (row) => row.volume ?? "" },
];

const volumeColumns = (model) => [
  { key: "name", label: "Volume", value: (row) => row.id },
  { key: "state", label: "State", value: (row) => row.state, show: (row) => tag(row.state) },
  size,
  storageClass,
  { key: "zone", label: "Zone", value: (row) => row.place.zone ?? "" },
  { key: "where", label: "Where", value: (row) => where(row.place) || row.place.level },
  { key: "claim", label: "Claim", value: (row) => row.claim ?? "" },
  { key: "group", label: "Group", value: (row) => row.group ?? "" },
  {
    key: "since",
    label: "Held since",
    value: (row) => (row.since ? new Date(row.since * 1000).toISOString() : ""),
    show: (row) => (row.since ? `${age(model.now - row.since)} ago` : ""),
  },
];

export const quorum = (group) => `${group.bound ?? 0} of ${group.minCount ?? 0} bound`;

export function heldWords(group) {
  if (group.rollingBack) return `${group.rollingBack} rolling back`;
  if (group.held) return `${group.held} of ${group.needed ?? 0} held`;
  return group.needed ? `${group.needed} needed` : "";
}

const groupColumns = () => [
  name("Group"),
  namespace,
  { key: "state", label: "State", value: (row) => row.state, show: (row) => tag(row.state) },
  { key: "quorum", label: "Quorum", value: quorum },
  { key: "members", label: "Members", value: (row) => row.members ?? 0 },
  { key: "held", label: "Volumes", value: heldWords },
  { key: "missing", label: "Waits for", value: (row) => row.missing ?? "" },
];

export function tables(model, onSelect) {
  const made = (kind, title, columns, rank, empty) =>
    new Table(byId(`view-${kind}s`), { title, kind, columns, rank, empty, onSelect });
  const claims = made("claim", "Claims", claimColumns(model), (row) => RANKS[model.claimState(row)] ?? 8, NO_CLAIM);
  const volumes = made("volume", "Volumes", volumeColumns(model), (row) => RANKS[row.state] ?? 8, NO_VOLUME);
  const groups = made("group", "Groups of pods", groupColumns(), (row) => GROUP_RANKS[row.state] ?? 0, NO_GROUP);
  return {
    claims: { table: claims, matches: (row) => claimMatches(row, model, model.filters) },
    volumes: { table: volumes, matches: (row) => volumeMatches(row, model.filters) },
    groups: { table: groups, matches: () => true },
  };
}

const NO_CLAIM = "No claim matches.";
const NO_VOLUME = "No volume matches.";
const NO_GROUP = "There are no PodGroups.";

// What the tree shows, a row for each pool in it.
export function topologyRows(built) {
  const rows = [];
  for (const holder of built.holders.values()) {
    const [level, at = ""] = holder.key.split(/:(.*)/s);
    for (const pool of holder.pools)
      rows.push({
        place: level,
        name: at,
        pool: pool.label,
        free: pool.free,
        used: pool.used,
        total: pool.total,
        volumes: pool.volumes.length,
        lost: pool.lost,
      });
  }
  return rows;
}

export const tableRows = (table) =>
  table.rows.map(({ row }) => Object.fromEntries(table.columns.map((one) => [one.key, one.value(row)])));
