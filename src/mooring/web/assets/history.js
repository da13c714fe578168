// How much of a pool was free during the last minutes: the server tells what was before, rows of pools what follows.

import { svg } from "./dom.js";
import { bytes } from "./format.js";

const SECONDS = 900;
const SAMPLE = 15;
const WIDTH = 132;
const HEIGHT = 26;

// A pool's row has changed. Changes that follow each other quickly are one, as on the server.
export function noteChange(history, before, after, at) {
  const [was, free] = [before.free ?? 0, after.free ?? 0];
  if (was === free || !at) return;
  const known = history.get(after.id) ?? { id: after.id, first: was, points: [] };
  let { first, points } = known;
  const last = points.at(-1);
  if (last && at - last[0] < SAMPLE) points = [...points.slice(0, -1), [last[0], free]];
  else points = [...points, [at, free]];
  while (points.length > 1 && at - points[0][0] > SECONDS) {
    first = points[0][1];
    points = points.slice(1);
  }
  history.set(after.id, { id: after.id, first, points });
}

// A line of steps, from the oldest change on the left to now on the right; none for a pool that did not change.
export function sparkline(line, free, now) {
  const points = (line?.points ?? []).filter(([at]) => now - at <= SECONDS);
  if (!points.length) return null;
  const most = Math.max(line.first, free, ...points.map(([, value]) => value)) || 1;
  const x = (at) => Math.max(0, WIDTH * (1 - (now - at) / SECONDS)).toFixed(1);
  const y = (value) => (HEIGHT - 2 - (value / most) * (HEIGHT - 4)).toFixed(1);
  const steps = points.map(([at, value]) => `H${x(at)}V${y(value)}`).join("");
  const least = Math.min(line.first, free, ...points.map(([, value]) => value));
  return svg(
    "svg",
    {
      class: "spark",
      viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
      width: WIDTH,
      height: HEIGHT,
      role: "img",
      "aria-label": `Free during the last 15 minutes: between ${bytes(least)} and ${bytes(most)}, now ${bytes(free)}`,
      data: { points: points.length },
    },
    svg("path", { d: `M0 ${y(line.first)}${steps}H${WIDTH}` }),
  );
}
