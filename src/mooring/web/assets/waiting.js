// Pods that wait for a node, longest first, each with the scheduler's last word.

import { arrange, byId, h } from "./dom.js";
import { age, bytes, count } from "./format.js";

const SHOWN = 100;

export class Waiting {
  constructor({ onSelect }) {
    this.onSelect = onSelect;
    this.list = byId("waiting-list");
    this.list.addEventListener("keydown", (event) => this.key(event));
  }

  update(model, selected) {
    const pods = model.waiting();
    const shown = pods.slice(0, SHOWN);
    byId("waiting-count").textContent = pods.length ? count(pods.length) : "";
    const focused = document.activeElement?.dataset?.pod;
    const items = shown.map((pod) => {
      const open = this.open(pod, model);
      const words = [pod.why, waited(pod), selected === `pod ${pod.id}`, open.map((claim) => claim.selectedNode)];
      return [pod.id, `${words} ${open.map((claim) => claim.size)}`, () => this.item(pod, open, selected)];
    });
    const more = `and ${count(pods.length - SHOWN)} more: search for them`;
    if (pods.length > SHOWN) items.push(["more", more, () => h("li", { class: "more" }, more)]);
    if (!pods.length) items.push(["none", "", () => h("li", { class: "empty" }, "No pod waits for a node.")]);
    arrange(this.list, items);
    if (focused) this.list.querySelector(`[data-pod="${CSS.escape(focused)}"]`)?.focus();
  }

  // Its claims that have no volume yet.
  open(pod, model) {
    return (pod.claims ?? []).map((key) => model.claims.get(key)).filter((claim) => claim && claim.phase !== "Bound");
  }

  item(pod, asked, selected) {
    const [namespace, name] = pod.id.split("/");
    const total = asked.reduce((all, claim) => all + (claim.size ?? 0), 0);
    return h(
      "li",
      {},
      h(
        "button",
        {
          type: "button",
          class: "pod",
          data: { pod: pod.id },
          "aria-current": selected === `pod ${pod.id}` ? "true" : null,
          onclick: () => this.onSelect("pod", pod.id),
        },
        h(
          "span",
          { class: "line" },
          h("b", {}, name),
          h("span", { class: "where" }, namespace),
          h("time", {}, waited(pod)),
        ),
        h("span", { class: "why" }, summary(pod.why) || progress(asked)),
        asked.length > 0 &&
          h(
            "span",
            { class: "asks" },
            `${asked.length === 1 ? "1 open claim" : `${asked.length} open claims`}, ${bytes(total)}`,
          ),
      ),
    );
  }

  key(event) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    const buttons = [...this.list.querySelectorAll("button")];
    const index = buttons.indexOf(document.activeElement);
    if (!step || index < 0) return;
    event.preventDefault();
    buttons[Math.min(Math.max(index + step, 0), buttons.length - 1)].focus();
  }
}

const waited = (pod) => (pod.since ? age(Date.now() / 1000 - pod.since) : "");

// A pod that is on its way has no word of the scheduler's yet, but its claims know where to.
function progress(claims) {
  const node = claims.find((claim) => claim.selectedNode)?.selectedNode;
  return node ? `volumes are being made for it on ${node}` : "no word from the scheduler yet";
}

// What the scheduler says of preemption comes after what matters.
const summary = (why) => (why ?? "").replace(/ preemption: .*$/, "");
