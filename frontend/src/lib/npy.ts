/** Reads `.npy`, the file of one array. */

export interface NumberArray {
  readonly shape: readonly number[];
  /** In C order. */
  readonly values: Float64Array;
}

type Read = (view: DataView, offset: number, little: boolean) => number;

const READERS: Readonly<Record<string, readonly [bytes: number, read: Read]>> = {
  f2: [2, (view, at, little) => halfFloat(view.getUint16(at, little))],
  f4: [4, (view, at, little) => view.getFloat32(at, little)],
  f8: [8, (view, at, little) => view.getFloat64(at, little)],
  b1: [1, (view, at) => view.getUint8(at)],
  u1: [1, (view, at) => view.getUint8(at)],
  u2: [2, (view, at, little) => view.getUint16(at, little)],
  u4: [4, (view, at, little) => view.getUint32(at, little)],
  u8: [8, (view, at, little) => Number(view.getBigUint64(at, little))],
  i1: [1, (view, at) => view.getInt8(at)],
  i2: [2, (view, at, little) => view.getInt16(at, little)],
  i4: [4, (view, at, little) => view.getInt32(at, little)],
  i8: [8, (view, at, little) => Number(view.getBigInt64(at, little))],
};
const MAGIC = "\u0093NUMPY";

/** Throws an Error with a sentence. */
export function readNpy(buffer: ArrayBuffer): NumberArray {
  const view = new DataView(buffer);
  const start = String.fromCharCode(...new Uint8Array(buffer.slice(0, MAGIC.length)));
  if (start !== MAGIC || buffer.byteLength < 12) throw new Error("This is not an .npy file.");
  const wide = view.getUint8(6) > 1;
  const from = wide ? 12 : 10;
  const end = from + (wide ? view.getUint32(8, true) : view.getUint16(8, true));
  const header = new TextDecoder("latin1").decode(buffer.slice(from, end));
  const [, order = "", type = ""] = /'descr':\s*'([<>|=]?)(\w+)'/.exec(header) ?? [];
  const shape = (/'shape':\s*\(([^)]*)\)/.exec(header)?.[1] ?? "").split(",").filter((part) => part.trim() !== "");
  const reader = READERS[type];
  if (!reader || header.includes("'fortran_order': True"))
    throw new Error(`Values of type ${type} cannot be shown here.`);
  const sizes = shape.map(Number);
  return { shape: sizes, values: valuesOf(view, end, sizes, reader, order !== ">") };
}

function valuesOf(
  view: DataView,
  from: number,
  shape: readonly number[],
  [bytes, read]: readonly [number, Read],
  little: boolean,
): Float64Array {
  const size = shape.reduce((product, each) => product * each, 1);
  if (!(from + size * bytes <= view.byteLength)) throw new Error("The file is incomplete.");
  const values = new Float64Array(size);
  for (let i = 0; i < size; i++) values[i] = read(view, from + i * bytes, little);
  return values;
}

function halfFloat(bits: number): number {
  const sign = bits & 0x8000 ? -1 : 1;
  const [exponent, fraction] = [(bits >> 10) & 31, bits & 1023];
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  return exponent === 0 ? sign * fraction * 2 ** -24 : sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
}
