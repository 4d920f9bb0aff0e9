/** Numbers as people read them. */

/** Four significant digits, powers of ten where they are shorter; NaN and infinities by name. */
export function formatNumber(value: number | null | undefined, digits = 4): string {
  if (value === null || value === undefined) return "–";
  if (Number.isNaN(value)) return "NaN";
  if (!Number.isFinite(value)) return value > 0 ? "+Inf" : "−Inf";
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e5 || size < 1e-3) return exponential(value, digits).replace("-", "−");
  return (size >= 10 ** digits ? formatCount(value) : rounded(value, digits)).replace("-", "−");
}

function exponential(value: number, digits: number): string {
  const [mantissa = "", exponent = ""] = value.toExponential(Math.max(digits - 2, 0)).split("e");
  return `${trimmed(mantissa)}e${exponent.replace("+", "").replace("-", "−")}`;
}

/** Without the power of ten that `toPrecision` would write for 999.9 with three digits. */
function rounded(value: number, digits: number): string {
  return String(Number(value.toPrecision(digits)));
}

function trimmed(text: string): string {
  return text.includes(".") && !text.includes("e") ? text.replace(/\.?0+$/, "") : text;
}

/** 1234567 as "1 234 567" with thin spaces. */
export function formatCount(value: number | null | undefined): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return formatNumber(value);
  return String(Math.round(value))
    .replace(/\B(?=(\d{3})+(?!\d))/g, "\u202f")
    .replace("-", "−");
}

/** 48200 as "48.2k". */
export function formatShort(value: number): string {
  const size = Math.abs(value);
  for (const [unit, sign] of [
    [1e9, "G"],
    [1e6, "M"],
    [1e3, "k"],
  ] as const) {
    // 999 999 is rounded to the next unit.
    if (size >= unit * 0.9995) return rounded(value / unit, 3).replace("-", "−") + sign;
  }
  return formatNumber(value, 3);
}

export function formatBytes(value: number | null | undefined): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return formatNumber(value);
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let [size, index] = [value, 0];
  while (Math.abs(size) >= 1024 && index < units.length - 1) [size, index] = [size / 1024, index + 1];
  return `${rounded(size, size >= 1000 ? 4 : 3)} ${units[index]}`;
}

/** A span of time, from nanoseconds to days. */
export function formatSeconds(value: number | null | undefined): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return formatNumber(value);
  const size = Math.abs(value);
  if (size === 0) return "0 s";
  if (size < 0.9995e-3) return `${rounded(value * 1e6, 3)} µs`;
  if (size < 0.9995) return `${rounded(value * 1e3, 3)} ms`;
  if (size < 59.95) return `${rounded(value, 3)} s`;
  const [seconds, minutes] = [Math.round(size), Math.round(size / 60)];
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
  if (minutes < 1440) return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
  return `${rounded(size / 86400, 3)} d`;
}

export function formatPercent(share: number | null | undefined): string {
  if (share === null || share === undefined || !Number.isFinite(share)) return formatNumber(share);
  return `${rounded(share * 100, share > 0 && share < 0.1 ? 2 : 3)} %`;
}

/** Distances between ticks that read well in KiB, MiB and so on. */
export function byteIncrements(): number[] {
  const units = [0, 1, 2, 3, 4, 5].map((power) => 1024 ** power);
  return units
    .flatMap((unit) => [0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50].map((lead) => lead * unit))
    .filter((each) => each >= 1);
}
