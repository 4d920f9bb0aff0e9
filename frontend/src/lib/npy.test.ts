import { describe, expect, it } from "vitest";
import { readNpy } from "./npy";

function npy(descr: string, shape: string, body: ArrayBufferLike): ArrayBuffer {
  const text = `{'descr': '${descr}', 'fortran_order': False, 'shape': (${shape}), }`.padEnd(117) + "\n";
  const whole = new Uint8Array(10 + text.length + body.byteLength);
  whole.set([0x93, 0x4e, 0x55, 0x4d, 0x50, 0x59, 1, 0, text.length & 255, text.length >> 8]);
  whole.set(new TextEncoder().encode(text), 10);
  whole.set(new Uint8Array(body), 10 + text.length);
  return whole.buffer;
}

describe("an array", () => {
  it("has its shape and its values", () => {
    const { shape, values } = readNpy(npy("<f4", "2, 2", Float32Array.of(1, 2, NaN, -Infinity).buffer));
    expect([shape, [...values]]).toEqual([
      [2, 2],
      [1, 2, NaN, -Infinity],
    ]);
  });

  it("of one dimension, and of none", () => {
    expect(readNpy(npy("<i8", "2,", BigInt64Array.of(-3n, 7n).buffer))).toEqual({
      shape: [2],
      values: Float64Array.of(-3, 7),
    });
    expect(readNpy(npy("|b1", "", Uint8Array.of(1).buffer))).toEqual({ shape: [], values: Float64Array.of(1) });
  });

  it("of half floats, small ones and infinite ones", () => {
    const bits = Uint16Array.of(0x3c00, 0xc000, 0x0001, 0x7c00, 0x7e00);
    expect([...readNpy(npy("<f2", "5,", bits.buffer)).values]).toEqual([1, -2, 2 ** -24, Infinity, NaN]);
  });
});

describe("what is no array", () => {
  it("is refused with a sentence", () => {
    expect(() => readNpy(new ArrayBuffer(40))).toThrow("This is not an .npy file.");
    expect(() => readNpy(npy("|O", "1,", new ArrayBuffer(8)))).toThrow("type O");
    expect(() => readNpy(npy("<f8", "9,", new ArrayBuffer(8)))).toThrow("incomplete");
  });
});
