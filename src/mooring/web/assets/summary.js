// The cluster in a sentence, its figures in a line, and what could not be read.

import { byId, h, replace } from "./dom.js";
import { bytes, count, plural, worded } from "./format.js";

export function showVerdict(model) {
  const { holders, zones } = model.whole.build();
  const waits = model.pending.size;
  const lost = [...model.unready].filter((id) => model.isLost(id));
  const unready = model.unready.size - lost.length;
  const stranded = ["nowhere", ...lost.map((id) => `node:${id}`)].reduce(
    (all, key) => all + (holders.get(key)?.volumes ?? 0),
    0,
  );
  const sentences = [
    waits
      ? `${worded(waits)} ${waits === 1 ? "pod waits" : "pods wait"} for a node.`
      : model.pods.size
        ? "Every pod has its node."
        : "There are no pods yet.",
  ];
  if (lost.length) sentences.push(`${worded(lost.length)} ${lost.length === 1 ? "node is" : "nodes are"} lost.`);
  if (unready) sentences.push(`${worded(unready)} ${unready === 1 ? "node is" : "nodes are"} not ready.`);
  if (stranded)
    sentences.push(`${worded(stranded)} ${stranded === 1 ? "volume is" : "volumes are"} out of every node's reach.`);
  const verdict = byId("verdict");
  const words = sentences.join(" ");
  if (verdict.textContent !== words) {
    verdict.textContent = words;
    byId("spoken").textContent = words;
    document.title = waits ? `(${waits}) Mooring` : "Mooring";
  }
  verdict.dataset.tone = waits || unready || stranded || lost.length ? "trouble" : "calm";
  showFacts(model, zones);
}

function showFacts(model, zones) {
  const all = { used: 0, total: 0 };
  for (const { sum } of zones) {
    all.used += sum.used;
    all.total += sum.total;
  }
  const [held, rolled] = [model.states.get("held"), model.states.get("rolling back")];
  const { size } = model.groups;
  const holding = [...model.groups.values()].filter((group) => group.held || group.rollingBack).length;
  const facts = [
    `${plural(model.nodes.size, "node")} in ${plural(zones.length, "zone")}`,
    model.claims.size && `${count(model.bound)} of ${plural(model.claims.size, "claim")} bound`,
    size && `${plural(size, "group")}${holding ? `, ${count(holding)} with held volumes` : ""}`,
    held && `${plural(held, "volume")} held`,
    rolled && `${plural(rolled, "volume")} rolling back`,
    all.total && `${bytes(all.used)} of ${bytes(all.total)} used`,
  ];
  const words = facts.filter(Boolean).join("  ·  ");
  if (byId("facts").textContent !== words) byId("facts").textContent = words;
}

export function showNotices(model) {
  const element = byId("notices");
  const notices = [...model.notices.values()].filter((one) => one.state !== "loading");
  const signature = JSON.stringify(notices);
  if (element.dataset.signature === signature) return;
  element.dataset.signature = signature;
  const of = (state) => notices.filter((one) => one.state === state);
  const [forbidden, unreachable] = [of("forbidden"), of("unreachable")];
  replace(
    element,
    unreachable.length > 0 &&
      h(
        "p",
        { title: unreachable[0].text },
        h("b", {}, "The API server does not answer. "),
        "What you see is as it was last heard: ",
        unreachable[0].text,
      ),
    forbidden.length > 0 &&
      h(
        "p",
        { title: forbidden.map((one) => one.text).join("\n") },
        h("b", {}, "Not everything may be seen. "),
        `You have no right to list ${forbidden.map((one) => one.id).join(", ")}; they are missing here.`,
      ),
  );
}
