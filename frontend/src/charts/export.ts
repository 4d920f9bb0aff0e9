/** Pictures and tables as files. */

export type CsvRow = readonly (string | number | null)[];

export function exportCsv(rows: readonly CsvRow[], name: string): void {
  download(new Blob([csvText(rows)], { type: "text/csv" }), `${fileName(name)}.csv`);
}

/** The canvas as it is, on the ground of the page. */
export function exportPng(canvas: HTMLCanvasElement, name: string): void {
  const copy = document.createElement("canvas");
  copy.width = canvas.width;
  copy.height = canvas.height;
  const context = copy.getContext("2d");
  if (!context) return;
  context.fillStyle = getComputedStyle(document.documentElement).getPropertyValue("--surface");
  context.fillRect(0, 0, copy.width, copy.height);
  context.drawImage(canvas, 0, 0);
  copy.toBlob((blob) => blob && download(blob, `${fileName(name)}.png`), "image/png");
}

export function csvText(rows: readonly CsvRow[]): string {
  return rows.map((row) => row.map(cell).join(",")).join("\r\n") + "\r\n";
}

function cell(value: string | number | null): string {
  if (value === null) return "";
  if (typeof value === "number") return String(value);
  // A spreadsheet would run a name that begins like a formula.
  const safe = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value;
  return /[",\r\n]/.test(safe) ? `"${safe.replace(/"/g, '""')}"` : safe;
}

function fileName(name: string): string {
  const safe = name.replace(/[^\p{L}\p{N}._-]+/gu, "-").slice(0, 100);
  return safe.replace(/^[.-]+|-+$/g, "") || "chart";
}

function download(blob: Blob, name: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}
