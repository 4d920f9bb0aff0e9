/** TensorBoard's entry page imports this file and calls `render`. The page itself has its own HTML, because that
 * one comes with a content security policy of its own, stricter than TensorBoard's. */
export function render(): void {
  document.location.replace(new URL("index.html", document.baseURI).href);
}
