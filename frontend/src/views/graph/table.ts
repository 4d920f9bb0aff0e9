import type { CsvRow } from "../../charts/export";
import { shapeText } from "../../lib/graph-text";
import type { GraphTree } from "../../lib/graph-tree";
import type { Colours } from "./picture";

/** All modules as a table; the last column is what the picture is coloured by. */
export function graphRows(tree: GraphTree, { measure, health, own }: Colours): CsvRow[] {
  const header = [
    "module",
    "class",
    "parent",
    "parameters",
    "trainable",
    "calls",
    "order",
    "inputs",
    "outputs",
    "file",
    "line",
    measure.label,
  ];
  const rows = [...tree.byName.values()].flatMap((id): CsvRow[] => {
    const item = tree.items[id];
    const module = item?.module;
    if (!item || !module) return [];
    const value = own.get(module.name) ?? health.get(id)?.value ?? NaN;
    const shapes = (tensors: typeof module.inputs): string =>
      tensors.map(({ shape, dtype }) => `${shapeText(shape)} ${dtype}`).join("; ");
    return [
      [
        module.name,
        module.class_name,
        module.parent,
        module.parameters,
        module.trainable,
        module.calls,
        module.order,
        shapes(module.inputs),
        shapes(module.outputs),
        module.source_file,
        module.source_line,
        Number.isNaN(value) ? null : value,
      ],
    ];
  });
  return [header, ...rows];
}
