'use strict';
// Numbers as people read them. Without scripts the server writes them, in the same way (page.rs).
const UNKNOWN = '–';

const byId = (id) => document.getElementById(id);

const whole = (number) => number.toLocaleString('en').replaceAll(',', '\u202f');

function took(us) {
  if (us === null) return UNKNOWN;
  const [value, unit] = us < 1e3 ? [us, 'µs'] : us < 1e6 ? [us / 1e3, 'ms'] : [us / 1e6, 's'];
  return `${value.toFixed(value < 10 ? 2 : value < 100 ? 1 : 0)} ${unit}`;
}

function perSecond(rate) {
  if (rate === null) return UNKNOWN;
  return rate === 0 || rate >= 100 ? whole(Math.round(rate)) : rate.toFixed(rate < 10 ? 2 : 1);
}

function memory(kib) {
  if (kib === null) return UNKNOWN;
  return kib < 1 << 20 ? `${Math.floor(kib / 1024)} MiB` : `${(kib / (1 << 20)).toFixed(1)} GiB`;
}

function age(seconds) {
  const [d, h, m, s] = [seconds / 86400, seconds / 3600 % 24, seconds / 60 % 60, seconds % 60]
    .map(Math.floor);
  return seconds < 60 ? `${s} s` : seconds < 3600 ? `${m} min ${s} s`
    : seconds < 86400 ? `${h} h ${m} min` : `${d} d ${h} h`;
}

// The duration that this share of all is not above; `bounds` are the upper bounds of the sizes.
function quantile(sizes, share, bounds) {
  let all = 0, below = 0;
  for (const [, count] of sizes) all += count;
  const wanted = share * all;
  for (const [size, count] of sizes) {
    if (below + count >= wanted) {
      const low = size > 0 ? bounds[size - 1] : 0, high = bounds[size] ?? low;
      return low + (high - low) * (wanted - below) / count;
    }
    below += count;
  }
  return null;
}

// A figure with no more digits than it has.
function figure(value) {
  if (typeof value !== 'number' || Number.isInteger(value)) return String(value);
  return String(Number(value.toPrecision(5)));
}
