/** Spans of time on an axis and in sentences. */

/** Steps between ticks that a clock would use, in seconds. */
export const TIME_INCREMENTS: readonly number[] = [
  0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200,
  10800, 21600, 43200, 86400, 172800, 604800, 1209600,
];

/** "1:02:03", "2:03", "4.5 s"; days in front where there are any. */
export function formatElapsed(seconds: number): string {
  if (!Number.isFinite(seconds)) return "–";
  if (Math.abs(seconds) < 60) return `${Number(seconds.toPrecision(3))} s`;
  const whole = Math.round(seconds);
  const two = (value: number): string => String(value).padStart(2, "0");
  const [days, hours, minutes] = [
    Math.floor(whole / 86400),
    Math.floor(whole / 3600) % 24,
    Math.floor(whole / 60) % 60,
  ];
  const clock = hours || days ? `${hours}:${two(minutes)}:${two(whole % 60)}` : `${minutes}:${two(whole % 60)}`;
  return days ? `${days} d ${clock}` : clock;
}

/** "12 s", "3 min", "5 h", "2 d": how long ago. */
export function formatAge(seconds: number): string {
  const age = Math.max(0, seconds);
  if (age < 60) return `${Math.floor(age)} s`;
  if (age < 3600) return `${Math.floor(age / 60)} min`;
  if (age < 172800) return `${Math.floor(age / 3600)} h`;
  return `${Math.floor(age / 86400)} d`;
}
