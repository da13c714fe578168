// A holder's storage as a bar to scale: pools side by side, in each its volumes and then the room that is left.

import { h } from "./dom.js";
import { bytes, plural } from "./format.js";

const GAP = 7;
// Narrower blocks cannot be told apart or hit: neighbours in the same state become one.
const NARROWEST = 4;
const LABELLED = 64;
const NARROW = 60;
const WORDY = 150;

export const stateClass = (state) => state.replace(" ", "-");

// `scale` is the bytes that fill `width`; `gaps` how many gaps the fullest bar of this scale has.
export function bar(holder, { scale, width, gaps, captions }) {
  const unit = scale > 0 ? (width - GAP * gaps) / scale : 0;
  const element = h("span", { class: captions ? "bar captioned" : "bar", "aria-hidden": "true" });
  let left = 0;
  for (const pool of holder?.pools ?? []) {
    const wide = Math.max(2, pool.total * unit);
    element.append(poolBar(pool, left, wide, unit, captions));
    left += wide + GAP;
  }
  return element;
}

function poolBar(pool, left, wide, unit, captions) {
  const box = h("span", { class: "pool", title: poolWords(pool) });
  box.style.left = `${left}px`;
  box.style.width = `${wide}px`;
  const track = h("span", { class: `track${pool.room ? "" : " bare"}${pool.lost ? " lost" : ""}` });
  let at = 0;
  for (const run of runs(pool.volumes, unit)) {
    const block = h("span", {
      class: `volume ${stateClass(run.state)}${run.deleting ? " deleting" : ""}`,
      title: runWords(run),
      data: run.volumes.length === 1 ? { volume: run.volumes[0].id } : {},
    });
    block.style.left = `${at}px`;
    const size = run.size * unit;
    block.style.width = `${Math.max(1, size - (size > 6 ? 2 : 0))}px`;
    if (captions && size > LABELLED) {
      block.classList.add("labelled");
      block.append(shortName(run.volumes[0]));
    }
    track.append(block);
    at += size;
  }
  box.append(track);
  if (captions)
    box.append(
      h(
        "span",
        { class: "caption" },
        h("b", {}, pool.label),
        wide > NARROW && ` ${wide > WORDY ? poolFigures(pool) : bytes(pool.free)}`,
      ),
    );
  return box;
}

function* runs(volumes, unit) {
  let run = null;
  for (const volume of volumes) {
    const narrow = (volume.size ?? 0) * unit < NARROWEST;
    if (run && narrow && run.narrow && run.state === volume.state) {
      run.volumes.push(volume);
      run.size += volume.size ?? 0;
      continue;
    }
    if (run) yield run;
    run = { state: volume.state, deleting: volume.deleting, size: volume.size ?? 0, volumes: [volume], narrow };
  }
  if (run) yield run;
}

function shortName(volume) {
  return volume.claim ? volume.claim.split("/").at(-1) : bytes(volume.size ?? 0);
}

export function poolFigures(pool) {
  if (pool.lost) return `${bytes(pool.total)} out of reach`;
  return pool.free ? `${bytes(pool.free)} of ${bytes(pool.total)} free` : `${bytes(pool.total)}, full`;
}

const poolWords = (pool) => `${pool.label}: ${poolFigures(pool)}, ${plural(pool.volumes.length, "volume")}`;

function runWords(run) {
  if (run.volumes.length > 1) return `${run.volumes.length} volumes, ${run.state}, ${bytes(run.size)} together`;
  const [volume] = run.volumes;
  return `${volume.id}: ${bytes(volume.size ?? 0)}, ${volume.state}${volume.claim ? `, ${volume.claim}` : ""}`;
}
