// What is shown, as a file: JSON with the filters it was made with, or CSV with a heading line.

import { h } from "./dom.js";

export function save(format, name, about, rows) {
  const text = format === "csv" ? csv(rows) : `${JSON.stringify({ ...about, rows }, null, 2)}\n`;
  const type = format === "csv" ? "text/csv" : "application/json";
  const url = URL.createObjectURL(new Blob([text], { type }));
  const link = h("a", { href: url, download: `${name}.${format}` });
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

function csv(rows) {
  if (!rows.length) return "";
  const keys = Object.keys(rows[0]);
  const lines = [keys, ...rows.map((row) => keys.map((key) => row[key]))];
  return lines.map((line) => `${line.map(cell).join(",")}\r\n`).join("");
}

// A text that a spreadsheet would take for a formula is quoted with an apostrophe: messages come from the cluster.
function cell(value) {
  const text = typeof value === "string" && /^[=+\-@\t\r]/.test(value) ? `'${value}` : String(value ?? "");
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
