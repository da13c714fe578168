// Amounts, ages and counts as people read them; amounts in Kubernetes' own units.

const UNITS = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

export function bytes(amount) {
  let value = amount;
  let unit = 0;
  // 1022Gi reads worse than 1Ti.
  while (value >= 1000 && unit < UNITS.length - 1) {
    value /= 1024;
    unit += 1;
  }
  const rounded = value >= 100 || Number.isInteger(value) ? Math.round(value) : Number(value.toFixed(1));
  return `${rounded}${UNITS[unit]}`;
}

export function age(seconds) {
  const past = Math.max(0, seconds);
  if (past < 60) return `${Math.floor(past)}s`;
  if (past < 3600) return `${Math.floor(past / 60)}m`;
  if (past < 86400) return `${Math.floor(past / 3600)}h`;
  return `${Math.floor(past / 86400)}d`;
}

const CLOCK = new Intl.DateTimeFormat(undefined, {
  hour: "2-digit",
  minute: "2-digit",
  second: "2-digit",
  hour12: false,
});

export const clock = (seconds) => CLOCK.format(new Date(seconds * 1000));

export const count = (number) => number.toLocaleString("en");

export const plural = (number, one, many = `${one}s`) => `${count(number)} ${number === 1 ? one : many}`;

const WORDS = ["No", "One", "Two", "Three", "Four", "Five", "Six", "Seven", "Eight", "Nine"];

export const worded = (number) => WORDS[number] ?? count(number);
