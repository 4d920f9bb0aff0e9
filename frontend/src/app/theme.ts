/** Follows the theme of TensorBoard around us, or of the system when there is none. */

import { theme } from "./state";

export function followTheme(): void {
  theme.subscribe((value) => (document.documentElement.dataset["theme"] = value));
  if (!followTensorBoard()) followSystem();
}

function followTensorBoard(): boolean {
  try {
    const body = window.parent === window ? null : window.parent.document.body;
    if (!body) return false;
    const read = (): void => {
      theme.value = body.classList.contains("dark-mode") ? "dark" : "light";
    };
    new MutationObserver(read).observe(body, { attributes: true, attributeFilter: ["class"] });
    read();
    return true;
  } catch {
    return false; // A host that keeps its page to itself.
  }
}

function followSystem(): void {
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const read = (): void => {
    theme.value = dark.matches ? "dark" : "light";
  };
  dark.addEventListener("change", read);
  read();
}
