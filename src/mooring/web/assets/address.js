// Which view, which filters, and what is open, as the fragment of the address: links keep it, and Back returns to it.

import { FIELDS } from "./filters.js";

export const VIEWS = ["topology", "claims", "volumes", "groups", "recovery"];
const KINDS = new Set(["node", "pod", "claim", "volume", "group", "place"]);

export function parsed(fragment) {
  const [path, query = ""] = fragment.replace(/^\//, "").split(/\?(.*)/s);
  const given = new URLSearchParams(query);
  const filters = Object.fromEntries(FIELDS.map((name) => [name, given.get(name) ?? ""]));
  const view = VIEWS.includes(path) ? path : "topology";
  return { view, filters, open: opened(given.get("open") ?? "") };
}

export function formatted({ view, filters, open }) {
  const query = new URLSearchParams();
  for (const name of FIELDS) if (filters[name]) query.set(name, filters[name]);
  if (open) query.set("open", `${open.kind}/${open.id}`);
  // Names of objects read better with their slashes.
  const words = query.toString().replaceAll("%2F", "/");
  return view === "topology" && !words ? "/" : `/#/${view}${words && `?${words}`}`;
}

function opened(text) {
  const [kind, id] = text.split(/\/(.*)/s);
  return KINDS.has(kind) && id ? { kind, id } : null;
}
