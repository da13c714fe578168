// All nodes at a glance, a cell each, filled as far as the node is: for clusters whose rows do not fit on a screen. A
// drawing for the eye and the mouse; the tree beside it is the accessible equivalent.

import { h } from "./dom.js";
import { bytes, plural } from "./format.js";
import { onScheme, palette, wiped } from "./paint.js";

const WIDTHS = [16, 14, 12, 10, 8, 7, 6, 5, 4, 3, 2];
const LABEL = 16;
const BETWEEN = 18;
const MOST_COLUMNS = 6;
const TALLEST = 132;

export class Overview {
  constructor(element, { onSelect }) {
    this.element = element;
    this.onSelect = onSelect;
    this.cells = [];
    this.canvas = h("canvas", { role: "img", "aria-label": "Overview" });
    element.append(this.canvas);
    this.canvas.addEventListener("click", (event) => {
      const cell = this.at(event);
      if (cell) this.onSelect("node", cell.node.id);
    });
    this.canvas.addEventListener("mousemove", (event) => this.hover(event));
    this.width = 0;
    new ResizeObserver(([entry]) => {
      this.width = entry.contentRect.width;
      this.lay();
    }).observe(element);
    onScheme(() => this.lay());
  }

  update(topology, selected) {
    const moved = this.topology?.zones !== topology.zones || this.selected !== selected;
    this.topology = topology;
    this.selected = selected;
    if (moved || !this.cells.length) this.lay();
    else this.draw();
  }

  // Lays all cells out; for other nodes, another width, another selection.
  lay() {
    const { width, topology } = this;
    if (!topology || !width) return;
    const { cells, labels, height } = layout(topology, width);
    this.cells = cells;
    this.pen = wiped(this.canvas, width, height);
    const { colour, font } = palette();
    this.pen.font = `600 11px ${font}`;
    this.pen.fillStyle = colour("--muted");
    for (const label of labels) this.pen.fillText(label.text, label.x, label.y, label.width);
    this.draw();
    const chosen = cells.find((cell) => `node:${cell.node.id}` === this.selected);
    if (chosen) {
      this.pen.strokeStyle = colour("--ink");
      this.pen.lineWidth = 2;
      this.pen.strokeRect(chosen.x - 1, chosen.y - 1, chosen.w + 2, chosen.h + 2);
    }
    this.canvas.setAttribute(
      "aria-label",
      `Overview: ${plural(cells.length, "node")}, each filled as far as its storage is used`,
    );
  }

  // Only cells that look different from what they were.
  draw() {
    const { colour } = palette();
    for (const cell of this.cells) {
      const holder = this.topology.holders.get(`node:${cell.node.id}`);
      const filled = holder?.total ? Math.round((holder.used / holder.total) * cell.h * 2) / 2 : 0;
      const paint = cell.node.ready === false ? "--bad" : holder?.unsettled ? "--held" : "--bound";
      const look = `${filled} ${paint}`;
      if (look === cell.look) continue;
      cell.look = look;
      const tall = paint === "--bad" ? cell.h : filled;
      this.pen.fillStyle = colour("--room");
      this.pen.fillRect(cell.x, cell.y, cell.w, cell.h);
      this.pen.fillStyle = colour(paint);
      this.pen.fillRect(cell.x, cell.y + cell.h - tall, cell.w, tall);
    }
  }

  at(event) {
    const { offsetX: x, offsetY: y } = event;
    return this.cells.find(
      (cell) => x >= cell.x - 1 && x <= cell.x + cell.w + 1 && y >= cell.y - 1 && y <= cell.y + cell.h + 1,
    );
  }

  hover(event) {
    const cell = this.at(event);
    const holder = cell && this.topology.holders.get(`node:${cell.node.id}`);
    this.canvas.title = cell
      ? `${cell.node.id}: ${holder ? `${bytes(holder.room)} free of ${bytes(holder.total)}` : "no storage"}`
      : "";
    this.canvas.style.cursor = cell ? "pointer" : "default";
  }
}

// Zones side by side, in each a grid of cells as large as the height allows.
function layout(topology, width) {
  const zones = topology.zones.map((zone) => ({ name: zone.name, nodes: zone.racks.flatMap((rack) => rack.nodes) }));
  const columns = Math.max(1, Math.min(zones.length, MOST_COLUMNS));
  const bands = Math.ceil(zones.length / columns);
  const wide = (width - BETWEEN * (columns - 1)) / columns;
  const most = Math.max(1, ...zones.map((zone) => zone.nodes.length));
  const { w, gap, perLine, tall } = cellSize(wide, most, bands);
  const hgt = cellHeight(w);
  const band = tall + LABEL + 8;
  const cells = [];
  const labels = [];
  zones.forEach((zone, index) => {
    const left = (index % columns) * (wide + BETWEEN);
    const top = Math.floor(index / columns) * band;
    labels.push({ text: zone.name || "no zone", x: left, y: top + 10, width: wide });
    zone.nodes.forEach((node, n) => {
      const x = left + (n % perLine) * (w + gap);
      cells.push({ node, x, y: top + LABEL + Math.floor(n / perLine) * (hgt + gap), w, h: hgt });
    });
  });
  return { cells, labels, height: band * bands };
}

// The largest cells with which all zones fit; the smallest there are where none do.
function cellSize(wide, most, bands) {
  let size;
  for (const w of WIDTHS) {
    const gap = w > 4 ? 2 : 1;
    const perLine = Math.max(1, Math.floor((wide + gap) / (w + gap)));
    size = { w, gap, perLine, tall: Math.ceil(most / perLine) * (cellHeight(w) + gap) };
    if (size.tall * bands <= TALLEST) break;
  }
  return size;
}

const cellHeight = (w) => Math.round(w * 1.3);
