// Elements from plain values. Text is only ever set as text, so nothing in the cluster can become markup.

export const h = (tag, properties = {}, ...children) => filled(document.createElement(tag), properties, children);

export const svg = (tag, properties = {}, ...children) =>
  filled(document.createElementNS("http://www.w3.org/2000/svg", tag), properties, children);

function filled(element, properties, children) {
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "class") element.setAttribute("class", value);
    else if (name === "data") Object.assign(element.dataset, value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  append(element, children);
  return element;
}

export function append(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child !== undefined && child !== null && child !== false && child !== "") element.append(child);
  }
}

export function replace(element, ...children) {
  element.replaceChildren();
  append(element, children);
}

const kept = new WeakMap();

// Children as `[key, signature, make]`: made again where the signature changed, left alone otherwise.
export function arrange(parent, items) {
  const before = kept.get(parent) ?? new Map();
  const after = new Map();
  let previous = null;
  for (const [key, signature, make] of items) {
    const known = before.get(key);
    const element = known?.signature === signature ? known.element : make();
    if (known && known.element !== element) known.element.replaceWith(element);
    const next = previous ? previous.nextSibling : parent.firstChild;
    if (next !== element) parent.insertBefore(element, next);
    after.set(key, { element, signature });
    previous = element;
  }
  while (previous ? previous.nextSibling : parent.firstChild) parent.lastChild.remove();
  kept.set(parent, after);
}

export const byId = (id) => document.getElementById(id);
