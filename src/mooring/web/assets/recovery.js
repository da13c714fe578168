// The plan for claims whose storage was lost with its node: what `mooring orphans --plan` prints, and nothing is done.

import { byId, h, replace } from "./dom.js";

export class Recovery {
  constructor({ connection, onSelect }) {
    this.connection = connection;
    this.onSelect = onSelect;
    this.element = byId("view-recovery");
    this.plan = null;
    this.asked = "";
    this.link = (kind, id) =>
      h("button", { type: "button", class: "link", title: id, onclick: () => onSelect(kind, id) }, id);
  }

  // Asked for again when other nodes are lost, or other volumes out of reach.
  update(signature) {
    if (this.asked === signature) return;
    this.asked = signature;
    this.ask();
  }

  async ask() {
    const asked = this.asked;
    if (!this.plan) replace(this.element, h("p", { class: "pending", role: "status" }, "Making a plan…"));
    let plan;
    let failed = "";
    try {
      plan = await this.connection.recovery();
    } catch (error) {
      failed = error.message;
    }
    if (asked !== this.asked) return;
    this.plan = plan ?? null;
    replace(this.element, h("div", { class: "plan" }, failed ? this.failure(failed) : this.render(plan)));
  }

  again = () => h("button", { type: "button", class: "ask", onclick: () => this.ask() }, "Plan again");

  failure(text) {
    return [h("p", { class: "says bad" }, text), this.again()];
  }

  render(plan) {
    return [
      h("p", { class: `says ${plan.items.length || plan.refused.length ? "bad" : "good"}` }, plan.verdict),
      plan.items.length > 0 && h("h3", {}, "Claims that could be replaced by empty ones"),
      plan.items.map((item) => this.item(item)),
      plan.refused.length > 0 && h("h3", {}, "Left alone"),
      plan.refused.length > 0 &&
        h(
          "ul",
          { class: "objects" },
          plan.refused.map((one) =>
            h(
              "li",
              {},
              this.link("volume", one.volume),
              one.claim && [" of ", this.link("claim", one.claim)],
              h("span", { class: "tag" }, one.code),
              h("span", { class: "detail" }, one.reason),
            ),
          ),
        ),
      h("p", { class: "detail" }, "This page changes nothing: mooring orphans --apply does, after a confirmation."),
      this.again(),
    ];
  }

  item(item) {
    return h(
      "section",
      { class: "planned", "aria-label": item.claim },
      h("p", {}, this.link("claim", item.claim), " on ", h("b", {}, item.node)),
      h("p", { class: "loses" }, `loses: ${item.loses}`),
      h("p", { class: "detail" }, `confirmed by: ${item.confirmedBy}`),
      h(
        "ol",
        { class: "steps" },
        item.steps.map((step) => h("li", {}, step)),
      ),
      item.pods.map((trial) => h("p", { class: "detail" }, `then: ${trial.verdict}`)),
    );
  }

  // For an export: a row for each volume of the plan.
  rows() {
    const planned = (this.plan?.items ?? []).map((one) => row("replace", one, one.loses, one.steps.join("; ")));
    return [...planned, ...(this.plan?.refused ?? []).map((one) => row("leave", one, one.code, one.reason))];
  }
}

const row = (action, one, why, detail) => ({
  action,
  claim: one.claim,
  volume: one.volume,
  node: one.node ?? "",
  why,
  detail,
});
