// What happened, newest first, and a strip of the last minutes with a lane for each sort of thing.

import { arrange, byId, h, replace } from "./dom.js";
import { age, clock } from "./format.js";
import { onScheme, palette, wiped } from "./paint.js";

export const LANES = [
  ["binding", "binding"],
  ["hold", "holds"],
  ["rollback", "rollbacks"],
  ["trouble", "trouble"],
];
const SHOWN = 150;
const MINUTES = 15;
const LANE_HEIGHT = 11;

export class Timeline {
  constructor({ onSelect }) {
    this.onSelect = onSelect;
    this.list = byId("happenings");
    this.strip = byId("strip");
    this.hidden = new Set();
    this.canvas = h("canvas", { role: "img", "aria-label": `The last ${MINUTES} minutes` });
    this.strip.append(this.canvas);
    replace(
      byId("lanes"),
      LANES.map(([lane, words]) =>
        h(
          "button",
          {
            type: "button",
            class: `lane ${lane}`,
            "aria-pressed": "true",
            data: { lane },
            onclick: (event) => this.toggle(lane, event.currentTarget),
          },
          words,
        ),
      ),
    );
    this.list.addEventListener("click", (event) => {
      const button = event.target.closest("[data-kind]");
      if (button) onSelect(button.dataset.kind, button.dataset.id);
    });
    this.width = 0;
    new ResizeObserver(([entry]) => {
      this.width = entry.contentRect.width;
      this.draw();
    }).observe(this.strip);
    onScheme(() => this.draw());
    setInterval(() => this.tick(), 5000);
    this.rows = [];
  }

  toggle(lane, button) {
    if (this.hidden.has(lane)) this.hidden.delete(lane);
    else this.hidden.add(lane);
    button.setAttribute("aria-pressed", String(!this.hidden.has(lane)));
    this.signature = "";
    this.update(this.model);
  }

  update(model) {
    this.model = model;
    this.rows = model.timeline();
    const shown = this.rows.filter((one) => !this.hidden.has(one.lane)).slice(0, SHOWN);
    const signature = shown.map((one) => `${one.id}${one.at}${one.count}`).join();
    if (signature === this.signature) return;
    this.signature = signature;
    const none = ["", "", () => h("li", { class: "empty" }, "Nothing happened lately.")];
    arrange(
      this.list,
      shown.length
        ? shown.map((one) => [one.id, `${one.at} ${one.count} ${isThere(one, model)}`, () => happening(one, model)])
        : [none],
    );
    this.draw();
  }

  tick() {
    const now = Date.now() / 1000;
    for (const element of this.list.querySelectorAll("time[data-at]"))
      element.textContent = age(now - Number(element.dataset.at));
    this.draw();
  }

  draw() {
    const { width } = this;
    if (!width) return;
    const height = LANES.length * LANE_HEIGHT + 14;
    const pen = wiped(this.canvas, width, height);
    const { colour, font } = palette();
    const now = Date.now() / 1000;
    const at = (seconds) => width - ((now - seconds) / (MINUTES * 60)) * width;
    pen.font = `10px ${font}`;
    for (const minutes of [0, 5, 10, 15]) {
      const x = Math.min(width - 1, Math.max(0, at(now - minutes * 60)));
      pen.fillStyle = colour("--line");
      pen.fillRect(x, 0, 1, height - 13);
      pen.fillStyle = colour("--muted");
      pen.textAlign = minutes === 0 ? "right" : minutes === 15 ? "left" : "center";
      pen.fillText(minutes === 0 ? "now" : `${minutes}m ago`, x, height - 2);
    }
    LANES.forEach(([lane], index) => {
      if (this.hidden.has(lane)) return;
      pen.fillStyle = colour(`--${lane}`);
      for (const one of this.rows) {
        const x = at(one.at);
        if (one.lane === lane && x >= 0)
          pen.fillRect(Math.min(x, width - 3), index * LANE_HEIGHT + 2, 3, LANE_HEIGHT - 4);
      }
    });
  }
}

const SELECTABLE = {
  Pod: ["pod", "pods"],
  PodGroup: ["group", "groups"],
  PersistentVolumeClaim: ["claim", "claims"],
  PersistentVolume: ["volume", "volumes"],
  Node: ["node", "nodes"],
};

function isThere(one, model) {
  const [, table] = SELECTABLE[one.kind] ?? [];
  return Boolean(model && table && model[table].has(one.about));
}

// One line; what it is about can be opened where it still exists.
export function happening(one, model) {
  const [kind] = SELECTABLE[one.kind] ?? [];
  const name = one.about.split("/").at(-1);
  const about = isThere(one, model)
    ? h("button", { type: "button", class: "link", title: one.about, data: { kind, id: one.about } }, name)
    : h("span", { class: "about", title: one.about }, name);
  return h(
    "li",
    { class: one.lane },
    h("time", { title: clock(one.at), data: { at: one.at } }, age(Date.now() / 1000 - one.at)),
    h("p", {}, h("b", {}, one.reason), " ", about, one.count > 1 && h("span", { class: "times" }, ` ×${one.count}`)),
    h("p", { class: "text" }, one.text),
  );
}
