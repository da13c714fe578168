// What drawings on a canvas share: its size in pixels of the screen, and the colours of the style sheet, which are read
// once for each colour scheme. To read them for every drawing would make the browser lay out the page each time.

const dark = matchMedia("(prefers-color-scheme: dark)");
let known = null;
dark.addEventListener("change", () => {
  known = null;
});

export function palette() {
  if (!known) {
    const style = getComputedStyle(document.documentElement);
    known = { font: style.fontFamily, of: new Map(), style };
  }
  const { font, of, style } = known;
  const colour = (name) => {
    if (!of.has(name)) of.set(name, style.getPropertyValue(name).trim());
    return of.get(name);
  };
  return { font, colour };
}

export const onScheme = (redraw) => dark.addEventListener("change", redraw);

// A pen for a canvas of this size, which is wiped.
export function wiped(canvas, width, height) {
  const ratio = devicePixelRatio || 1;
  canvas.width = width * ratio;
  canvas.height = height * ratio;
  canvas.style.height = `${height}px`;
  const pen = canvas.getContext("2d");
  pen.scale(ratio, ratio);
  return pen;
}
