/** Small pictures for buttons; each button has words of its own for who cannot see them. */

import type { JSX } from "preact";

const PATHS = {
  pause: "M5 3.5v9M11 3.5v9",
  play: "M5 3.2v9.6l7.6-4.8z",
  search: "M7 11.5a4.5 4.5 0 1 0 0-9 4.5 4.5 0 0 0 0 9zM10.4 10.4 14 14",
  menu: "M2 4.5h12M2 8h12M2 11.5h12",
  close: "M4 4l8 8M12 4l-8 8",
  help: "M6 6.2a2 2 0 1 1 2.7 1.9c-.5.2-.7.6-.7 1.1v.3M8 11.8v.1",
  reset: "M3 8a5 5 0 1 0 1.6-3.7M3 2.5v2.6h2.6",
  download: "M8 2.5v7.5M5 7.2l3 3 3-3M3 13h10",
  chevron: "M6 4l4 4-4 4",
  sliders: "M2 5h7M13 5h1M2 11h1M7 11h7M11 3.4v3.2M5 9.4v3.2",
  copy: "M6 5.5h7.5v8H6zM3.5 10.5h-1v-8H10v1",
  check: "M3.5 8.5l3 3 6-7",
  warning: "M8 2.5l6 11H2zM8 6.8v3M8 11.6v.1",
  error: "M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12zM8 5v3.6M8 10.9v.1",
  unknown: "M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12zM6.3 6.3a1.7 1.7 0 1 1 2.3 1.6c-.4.2-.6.5-.6 1M8 11.1v.1",
  info: "M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12zM8 7.4V11M8 5.1v.1",
} as const;

export type IconName = keyof typeof PATHS;

export function Icon({ name }: { readonly name: IconName }): JSX.Element {
  return (
    <svg class="icon" viewBox="0 0 16 16" width="16" height="16" aria-hidden="true">
      <path d={PATHS[name]} />
    </svg>
  );
}
