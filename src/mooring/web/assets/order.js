// node-9 before node-10. Names are made comparable once: thousands are sorted for a drawing, and collators are slow.

const sortable = new Map();
const MOST_SORTABLE = 200_000;

export function sortKey(name) {
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
