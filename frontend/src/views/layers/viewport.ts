import { signal } from "@preact/signals";

const viewport = signal(typeof window === "undefined" ? 800 : window.innerHeight || 800);
if (typeof window !== "undefined") {
  // TensorBoard hides a plugin by giving it no height: what was last seen is the better measure then.
  window.addEventListener("resize", () => (viewport.value = window.innerHeight || viewport.peek()));
}

/** A share of the height of the window, within what is reasonable for a chart. */
export function useViewportHeight(share: number): number {
  return Math.round(Math.min(900, Math.max(240, viewport.value * share)));
}
