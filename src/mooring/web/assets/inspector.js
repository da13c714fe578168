// One object looked at closely: what it is, what belongs to it, and what happened to it.

import { poolFigures, stateClass } from "./bar.js";
import { byId, h, replace } from "./dom.js";
import { explanation, groupExplanation } from "./explanation.js";
import { bytes, count } from "./format.js";
import { sparkline } from "./history.js";
import { placeWords } from "./model.js";
import { happening } from "./timeline.js";
import { heldWords, quorum } from "./views.js";

const LISTED = 60;

export class Inspector {
  constructor({ model, connection, onSelect, onClose, onPlan }) {
    this.onPlan = onPlan;
    this.model = model;
    this.connection = connection;
    this.onSelect = onSelect;
    this.onClose = onClose;
    this.element = byId("inspector");
    this.link = (kind, id, words = id.split("/").at(-1)) =>
      h("button", { type: "button", class: "link", title: id, onclick: () => onSelect(kind, id) }, words);
    this.shown = null;
    this.signature = "";
    this.answers = null;
  }

  show(kind, id) {
    this.shown = { kind, id };
    this.signature = "";
    this.answers = null;
    this.element.hidden = false;
    this.update();
    this.element.scrollTop = 0;
    if ((kind === "pod" && this.model.pods.get(id)?.waiting) || kind === "group") this.explain(kind, id);
  }

  hide() {
    this.shown = null;
    this.element.hidden = true;
  }

  // Draw anew where what is shown has changed; never only because time went by.
  update() {
    if (!this.shown) return;
    const { kind, id } = this.shown;
    const [facts, body] = this[kind](id);
    const related = this.model.happeningsAbout(id).slice(0, 12);
    const signature = JSON.stringify([facts, related, body.key]);
    if (signature === this.signature) return;
    this.signature = signature;
    const held = this.element.contains(document.activeElement);
    replace(
      this.element,
      h(
        "div",
        { class: "inspector-head" },
        h(
          "button",
          { type: "button", class: "back", "aria-label": "Close details", onclick: () => this.onClose() },
          "←",
        ),
        h(
          "div",
          {},
          h("p", { class: "kind" }, KINDS[kind]),
          h("h2", {}, kind === "place" ? PLACES(id) : id.split("/").at(-1)),
        ),
      ),
      h(
        "dl",
        {},
        facts.filter(([, value]) => value).map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]),
      ),
      body.render(),
      related.length > 0 &&
        h(
          "section",
          {},
          h("h3", {}, "What happened"),
          h(
            "ol",
            { class: "happenings" },
            related.map((one) => happening(one)),
          ),
        ),
    );
    if (held) this.element.focus({ preventScroll: true });
  }

  async explain(kind, id) {
    this.answers = { pending: true };
    this.redraw();
    let answers;
    try {
      answers = { found: await this.connection.explain(kind, id) };
    } catch (error) {
      answers = { failed: error.message };
    }
    if (this.shown?.kind !== kind || this.shown.id !== id) return;
    this.answers = answers;
    this.redraw();
  }

  redraw() {
    this.signature = "";
    this.update();
  }

  pod(id) {
    const pod = this.model.pods.get(id);
    if (!pod) return gone("This pod is gone.");
    const claims = (pod.claims ?? []).map((key) => this.model.claims.get(key) ?? { id: key, phase: "missing" });
    const facts = [
      ["Namespace", id.split("/")[0]],
      ["State", pod.deleting ? "being deleted" : pod.waiting ? "waits for a node" : pod.phase],
      ["Since", pod.since ? new Date(pod.since * 1000).toLocaleString() : ""],
      ["Node", pod.node],
    ];
    return [
      facts,
      {
        key: [claims, this.answers && Object.keys(this.answers), pod.why, pod.group],
        render: () => [
          this.answer("pod", id, pod.waiting ? "Why does it wait?" : "Explain"),
          pod.group && list("Group", [this.link("group", pod.group)]),
          claims.length > 0 &&
            h(
              "section",
              {},
              h("h3", {}, "Claims"),
              h(
                "ul",
                { class: "objects" },
                claims.map((claim) => this.claimItem(claim)),
              ),
            ),
        ],
      },
    ];
  }

  answer(kind, id, question) {
    const { answers } = this;
    const ask = (words) => h("button", { type: "button", class: "ask", onclick: () => this.explain(kind, id) }, words);
    if (!answers) return ask(question);
    if (answers.pending) return h("p", { class: "pending", role: "status" }, "Asking the scheduler's own rules…");
    if (answers.failed)
      return h("div", { class: "explanation" }, h("p", { class: "says bad" }, answers.failed), ask("Try again"));
    const explained = kind === "group" ? groupExplanation : explanation;
    return [explained(answers.found, this.link), ask("Explain again")];
  }

  group(id) {
    const group = this.model.groups.get(id);
    if (!group) return gone("This group is gone.");
    const held = this.model.volumesHeldFor(id);
    const facts = [
      ["Namespace", id.split("/")[0]],
      ["State", group.state],
      ["Quorum", `${quorum(group)}, ${count(group.members ?? 0)} members`],
      ["Volumes", heldWords(group)],
      ["Same", group.topologyKey],
      ["Waits for", group.missing],
    ];
    return [
      facts,
      {
        key: [held, this.answers && Object.keys(this.answers)],
        render: () => [
          this.answer("group", id, "Explain"),
          held.length > 0 &&
            h(
              "section",
              {},
              h("h3", {}, "Held volumes", h("span", { class: "count" }, count(held.length))),
              h(
                "ul",
                { class: "objects" },
                held.slice(0, LISTED).map((one) => this.volumeItem(one)),
                held.length > LISTED && h("li", { class: "more" }, `and ${held.length - LISTED} more`),
              ),
            ),
        ],
      },
    ];
  }

  claim(id) {
    const claim = this.model.claims.get(id);
    if (!claim) return gone("This claim is gone.");
    const pods = this.model.podsUsing(id);
    const facts = [
      ["Namespace", id.split("/")[0]],
      ["Phase", claim.deleting ? "being deleted" : claim.phase],
      ["Asks for", bytes(claim.size ?? 0)],
      ["Class", claim.storageClass || "none"],
      ["Chosen node", claim.selectedNode],
    ];
    return [
      facts,
      {
        key: [claim.volume, pods.map((pod) => pod.id)],
        render: () => [
          claim.volume && list("Volume", [this.link("volume", claim.volume)]),
          list(
            "Pods",
            pods.map((pod) => this.link("pod", pod.id)),
            "No pod uses it.",
          ),
        ],
      },
    ];
  }

  volume(id) {
    const volume = this.model.volumes.get(id);
    if (!volume) return gone("This volume is gone.");
    const facts = [
      ["State", volume.deleting ? `${volume.state}, being deleted` : volume.state],
      ["Size", bytes(volume.size ?? 0)],
      ["Class", volume.storageClass || "none"],
      ["Driver", volume.driver],
      ["Pool", volume.driver ? volume.pool : ""],
      ["Reached", placeWords(volume.place)],
      ["Because", volume.reason],
      ["Held since", volume.since ? new Date(volume.since * 1000).toLocaleString() : ""],
    ];
    const held = volume.state === "held" || volume.state === "rolling back";
    const pods = volume.claim ? this.model.podsUsing(volume.claim) : [];
    return [
      facts,
      {
        key: [volume.claim, volume.place, volume.group, pods.map((pod) => pod.id)],
        render: () => [
          volume.group && list("Held for group", [this.link("group", volume.group)]),
          volume.claim && list(held ? "Held for claim" : "Claim", [this.link("claim", volume.claim)]),
          pods.length > 0 &&
            list(
              "Pods",
              pods.map((pod) => this.link("pod", pod.id)),
            ),
          volume.place.level === "node" && list("Node", [this.link("node", volume.place.node)]),
        ],
      },
    ];
  }

  node(id) {
    const node = this.model.nodes.get(id);
    if (!node) return gone("This node is gone.");
    const pods = this.model.podsOn(id);
    const facts = [
      ["Zone", node.zone],
      ["Rack", node.rack],
      ["State", nodeState(node)],
    ];
    const holder = this.model.whole.build().holders.get(`node:${id}`);
    return [
      facts,
      {
        key: [holder?.pools, node.lost, pods.map((pod) => pod.id)],
        render: () => [
          node.lost && h("button", { type: "button", class: "ask", onclick: () => this.onPlan() }, "Recovery plan"),
          this.pools(holder),
          list(
            "Pods",
            pods.slice(0, LISTED).map((pod) => this.link("pod", pod.id)),
            "No pod is here.",
            pods.length,
          ),
        ],
      },
    ];
  }

  // What a zone, a rack or the whole cluster shares, or no node reaches.
  place(id) {
    const holder = this.model.whole.build().holders.get(id);
    if (!holder) return gone("There is no storage here any more.");
    const facts = [
      ["Free", bytes(holder.room)],
      ["In all", bytes(holder.total)],
    ];
    return [facts, { key: holder.pools, render: () => this.pools(holder) }];
  }

  pools(holder) {
    if (!holder) return h("p", { class: "empty" }, "It has no storage of its own.");
    return holder.pools.map((pool) =>
      h(
        "section",
        {},
        h("h3", {}, pool.label, h("span", { class: "count" }, poolFigures(pool))),
        sparkline(this.model.history.get(pool.source), pool.room, this.model.now),
        h(
          "ul",
          { class: "objects" },
          pool.volumes.slice(0, LISTED).map((one) => this.volumeItem(one)),
          pool.volumes.length > LISTED && h("li", { class: "more" }, `and ${pool.volumes.length - LISTED} more`),
        ),
      ),
    );
  }

  claimItem(claim) {
    const volume = claim.volume ? [" on ", this.link("volume", claim.volume)] : "";
    return h(
      "li",
      {},
      this.link("claim", claim.id),
      h("span", { class: "tag" }, claim.phase),
      h("span", { class: "size" }, bytes(claim.size ?? 0)),
      volume && h("span", { class: "beside" }, volume),
    );
  }

  volumeItem(volume) {
    // People know their claims; the names of volumes that a driver made are noise.
    const words = volume.claim || volume.id;
    return h(
      "li",
      {},
      h("i", { class: `key ${stateClass(volume.state)}` }),
      this.link("volume", volume.id, words),
      h("span", { class: "size" }, bytes(volume.size ?? 0)),
      h("span", { class: "beside" }, volume.claim ? volume.id : volume.state),
    );
  }
}

const KINDS = {
  pod: "Pod",
  group: "PodGroup",
  claim: "PersistentVolumeClaim",
  volume: "PersistentVolume",
  node: "Node",
  place: "Storage",
};
const PLACES = (id) =>
  id === "nowhere" ? "No node reaches" : id === "cluster" ? "Whole cluster" : id.replace(":", " ");

function nodeState(node) {
  if (node.lost) return "lost: not ready beyond the grace period";
  return node.ready === false ? "not ready" : node.cordoned ? "ready, cordoned" : "ready";
}

const gone = (sentence) => [[], { key: sentence, render: () => h("p", { class: "empty" }, sentence) }];

function list(title, links, empty = "", total = links.length) {
  return h(
    "section",
    {},
    h("h3", {}, title, total > 1 && h("span", { class: "count" }, count(total))),
    links.length
      ? h(
          "ul",
          { class: "objects plain" },
          links.map((one) => h("li", {}, one)),
        )
      : h("p", { class: "empty" }, empty),
  );
}
