/** Pictures and tables as files. */

import { shownName } from "../lib/tensor-name";
import { paletteOf, type Palette } from "./palette";

export type CsvRow = readonly (string | number | null)[];

export function exportCsv(rows: readonly CsvRow[], name: string): void {
  download(new Blob([csvText(rows)], { type: "text/csv" }), `${fileName(name)}.csv`);
}

export interface Caption {
  readonly title: string;
  readonly legend: readonly { readonly label: string; readonly colour: string; readonly dash?: readonly number[] }[];
}

const MARGIN = 12;
const LINE = 18;
const LONGEST_LABEL = 80;

/** The canvas on the ground of the page, below what one has to know to understand it away from the page. */
export function exportPng(canvas: HTMLCanvasElement, name: string, caption?: Caption): void {
  const copy = document.createElement("canvas");
  const context = copy.getContext("2d");
  if (!context) return;
  const ratio = canvas.width / (canvas.clientWidth || canvas.width);
  const palette = paletteOf(document.documentElement.dataset["theme"] === "dark" ? "dark" : "light");
  const rows = caption ? legendRows(context, caption, canvas.width / ratio, palette.font) : [];
  const head = caption ? MARGIN + LINE * (1 + rows.length) : 0;
  [copy.width, copy.height] = [canvas.width, canvas.height + Math.round(head * ratio)];
  context.fillStyle = palette.surface;
  context.fillRect(0, 0, copy.width, copy.height);
  context.drawImage(canvas, 0, Math.round(head * ratio));
  context.scale(ratio, ratio);
  if (caption) drawCaption(context, caption.title, rows, palette);
  copy.toBlob((blob) => blob && download(blob, `${fileName(name)}.png`), "image/png");
}

interface Entry {
  readonly label: string;
  readonly colour: string;
  readonly dash: readonly number[];
  readonly left: number;
}

function legendRows(context: CanvasRenderingContext2D, { legend }: Caption, width: number, font: string): Entry[][] {
  const rows: Entry[][] = [];
  let left = Infinity;
  context.font = `12px ${font}`;
  for (const { label: whole, colour, dash = [] } of legend) {
    const label = shownName(whole).slice(0, LONGEST_LABEL);
    const size = context.measureText(label).width + 42;
    if (left + size > width - MARGIN) {
      rows.push([]);
      left = MARGIN;
    }
    rows[rows.length - 1]?.push({ label, colour, dash, left });
    left += size;
  }
  return rows;
}

function drawCaption(
  context: CanvasRenderingContext2D,
  title: string,
  rows: readonly Entry[][],
  palette: Palette,
): void {
  context.textBaseline = "middle";
  context.font = `600 13px ${palette.font}`;
  context.fillStyle = palette.text;
  context.fillText(shownName(title).slice(0, 2 * LONGEST_LABEL), MARGIN, MARGIN + LINE / 2);
  context.font = `12px ${palette.font}`;
  context.lineWidth = 2.5;
  rows.forEach((row, index) => {
    const y = MARGIN + LINE * (index + 1.5);
    for (const { label, colour, dash, left } of row) {
      context.strokeStyle = colour;
      context.setLineDash([...dash]);
      context.beginPath();
      context.moveTo(left, y);
      context.lineTo(left + 18, y);
      context.stroke();
      context.fillText(label, left + 24, y);
    }
  });
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

export function saveFile(blob: Blob, name: string, kind: string): void {
  download(blob, `${fileName(name)}.${kind}`);
}

function download(blob: Blob, name: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}
