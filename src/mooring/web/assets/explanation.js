// Why a pod or a group waits, in the order it is asked: the verdict, what would help, its claims or members, then the
// nodes by what speaks against them.

import { h } from "./dom.js";
import { count, plural } from "./format.js";
import { compare } from "./order.js";

export function explanation(found, link) {
  return h(
    "div",
    { class: "explanation" },
    h("p", { class: `says ${found.ok ? "good" : "bad"}` }, found.verdict),
    found.helps.length > 0 && section("What would help", bullets("helps", found.helps)),
    found.everywhere.length > 0 && section("On every node", reasons(found.everywhere)),
    found.claims.length > 0 &&
      section(
        "Its claims",
        found.claims.map((claim) => standing(claim, link)),
      ),
    found.groups.length > 0 &&
      section(
        "Nodes",
        found.groups.map((group, index) => nodes(group, link, index === 0)),
      ),
    found.notes.length > 0 && section("Notes", bullets("notes", found.notes)),
  );
}

// What limits a group in each domain, its members, and what would help: as `mooring explain podgroup/NAME` has it.
export function groupExplanation(found, link) {
  const { limits = [], lines = [], members = [], notes = [], helps = [], checks = [] } = found;
  const domain = (one) => (one.domain ? `${one.domain}: ${one.members} of ${one.needed}` : "");
  return h(
    "div",
    { class: "explanation" },
    h("p", { class: `says ${found.ok ? "good" : "bad"}` }, found.verdict),
    helps.length > 0 && section("What would help", bullets("helps", helps)),
    checks.length > 0 && section("What to check", bullets("helps", checks)),
    limits.length > 0 &&
      section(
        "What limits it",
        limits.map((one) =>
          h("div", { class: "claim" }, domain(one) && h("p", {}, domain(one)), bullets("notes", one.limits ?? [])),
        ),
      ),
    lines.length > 0 && bullets("notes", lines),
    members.length > 0 &&
      section(
        "Members",
        members.slice(0, MEMBERS).map((one) => member(one, link)),
        members.length > MEMBERS && h("p", { class: "more" }, `and ${count(members.length - MEMBERS)} more`),
      ),
    notes.length > 0 && section("Notes", bullets("notes", notes)),
  );
}

const MEMBERS = 60;

function member(one, link) {
  return h(
    "div",
    { class: `claim${one.state === "rejected" ? " stuck" : ""}` },
    h(
      "p",
      {},
      link("pod", one.pod),
      " ",
      h("span", { class: "tag" }, one.state),
      one.node && [" on ", link("node", one.node)],
    ),
    one.detail && h("p", { class: "detail" }, one.detail),
    one.volumes?.map((line) => h("p", { class: "detail" }, line)),
  );
}

const section = (title, ...children) => h("section", {}, h("h3", {}, title), children);

const items = (list) => list.map((one) => h("li", {}, one));
const bullets = (name, list) => h("ul", { class: name }, items(list));

function reasons(list) {
  return h(
    "ul",
    { class: "reasons" },
    list.map((one) =>
      h(
        "li",
        {},
        h("span", {}, one.reason),
        one.detail && h("span", { class: "detail" }, one.detail),
        h("code", {}, one.plugin),
      ),
    ),
  );
}

function standing(claim, link) {
  return h(
    "div",
    { class: `claim${claim.stuck ? " stuck" : ""}` },
    h("p", {}, link("claim", claim.claim), " ", h("span", { class: "tag" }, claim.state)),
    h("p", { class: "detail" }, claim.verdict),
    claim.notes?.map((one) => h("p", { class: "detail" }, one)),
    claim.helps?.length > 0 && bullets("helps", claim.helps),
  );
}

function nodes(group, link, open) {
  const shown = [...group.nodes].sort(compare).slice(0, 12);
  const more = group.count - shown.length;
  return h(
    "details",
    { class: group.fits ? "nodes fits" : "nodes", open },
    h(
      "summary",
      {},
      h("b", {}, count(group.count)),
      ` ${group.count === 1 ? "node" : "nodes"} `,
      h(
        "span",
        {},
        group.fits
          ? group.count === 1
            ? "fits"
            : "fit"
          : group.reasons.map((one) => one.reason).join("; ") || "not looked at",
      ),
    ),
    h(
      "p",
      { class: "names" },
      shown.map((name) => [link("node", name), " "]),
      more > 0 && `and ${count(more)} more`,
    ),
    (group.reasons.length > 1 || group.reasons[0]?.detail) && reasons(group.reasons),
    group.volumes.length > 0 &&
      h(
        "div",
        { class: "volumes" },
        group.count > 1 && h("p", { class: "detail" }, `Volumes, for example on ${group.nodes[0]}`),
        group.volumes.map((one) => volume(one, link)),
      ),
  );
}

function volume(one, link) {
  const failed = Object.entries(one.failed ?? {});
  return h(
    "div",
    { class: "claim" },
    h("p", {}, link("claim", one.claim), " ", outcome(one, link)),
    one.reason && h("p", { class: "detail" }, one.reason),
    one.detail && h("p", { class: "detail" }, one.detail),
    rooms(one).map((room) =>
      h("p", { class: "detail" }, [room.segment, room.detail || room.problem].filter(Boolean).join(": ")),
    ),
    one.candidates?.length > 0 &&
      h(
        "table",
        { class: "candidates" },
        h("caption", { class: "spoken" }, "Volumes that do not match"),
        h("thead", { class: "spoken" }, h("tr", {}, headings("Volume", "Why not"))),
        h(
          "tbody",
          {},
          one.candidates
            .slice(0, 5)
            .map((each) =>
              h(
                "tr",
                {},
                h("td", {}, link("volume", each.volume)),
                h("td", {}, each.reason || "needed by another claim of the pod", each.detail && ` (${each.detail})`),
              ),
            ),
        ),
      ),
    failed.length > 0 &&
      h(
        "p",
        { class: "detail" },
        failed.map(([criterion, number]) => `${plural(number, "volume")} fail ${criterion}`).join(", "),
      ),
  );
}

const headings = (...words) => words.map((one) => h("th", { scope: "col" }, one));

// What is reported for other nodes says nothing about this one.
function rooms(one) {
  return (one.rooms ?? []).filter((room) => room.problem !== "ELSEWHERE").slice(0, 4);
}

function outcome(one, link) {
  switch (one.state) {
    case "bound":
      return ["is bound to ", link("volume", one.volume)];
    case "bind":
      return ["would get ", link("volume", one.volume)];
    case "provision":
      return `would have a volume of class ${one.storageClass} made`;
    default:
      return `gets no volume of class ${one.storageClass || "(none)"}`;
  }
}
