import { expect, it } from "vitest";
import { HeldKey } from "./held-key";

function steps(): { key: HeldKey<string>; taken: string[]; answer: (goesOn: boolean) => Promise<void> } {
  const taken: string[] = [];
  let answered: (goesOn: boolean) => void = () => undefined;
  const key = new HeldKey<string>((what) => {
    taken.push(what);
    return new Promise((resolve) => (answered = resolve));
  });
  const answer = async (goesOn: boolean): Promise<void> => {
    answered(goesOn);
    await new Promise((resolve) => setTimeout(resolve, 0));
  };
  return { key, taken, answer };
}

it("steps again when the answer has come, and not before", async () => {
  const { key, taken, answer } = steps();
  key.press("layer");
  expect(taken).toEqual(["layer"]);
  await answer(true);
  expect(taken).toEqual(["layer", "layer"]);
});

it("stops when the key is let go, and when there is nothing to step any more", async () => {
  const { key, taken, answer } = steps();
  key.press("layer");
  key.release();
  await answer(true);
  expect(taken).toEqual(["layer"]);
  key.press("op");
  await answer(false);
  expect(taken).toEqual(["layer", "op"]);
});

it("steps once for what was pressed and let go of while a step was on its way", async () => {
  const { key, taken, answer } = steps();
  key.press("layer");
  key.press("batch");
  key.release();
  await answer(true);
  await answer(true);
  expect(taken).toEqual(["layer", "batch"]);
});

it("goes on with another key that was pressed meanwhile", async () => {
  const { key, taken, answer } = steps();
  key.press("layer");
  key.press("op");
  await answer(true);
  expect(taken).toEqual(["layer", "op"]);
});
