import { expect, it } from "vitest";
import { Gestures } from "./gestures";

it("hovers without a button", () => {
  expect(new Gestures().move(1, { x: 3, y: 4 })).toEqual({ kind: "hover", at: { x: 3, y: 4 } });
});

it("takes a press with a trembling hand for a click", () => {
  const gestures = new Gestures();
  gestures.down(1, { x: 10, y: 10 });
  expect(gestures.move(1, { x: 12, y: 11 }).kind).toBe("none");
  expect(gestures.up(1, { x: 12, y: 11 })).toEqual({ kind: "click", at: { x: 12, y: 11 } });
});

it("drags from where the press began, also back over the start", () => {
  const gestures = new Gestures();
  gestures.down(1, { x: 10, y: 10 });
  expect(gestures.move(1, { x: 40, y: 10 }).kind).toBe("dragging");
  expect(gestures.move(1, { x: 11, y: 10 }).kind).toBe("dragging");
  expect(gestures.up(1, { x: 4, y: 10 })).toEqual({ kind: "dragged", from: { x: 10, y: 10 }, to: { x: 4, y: 10 } });
});

it("zooms and moves with two fingers, and takes neither for a click afterwards", () => {
  const gestures = new Gestures();
  gestures.down(1, { x: 100, y: 0 });
  gestures.down(2, { x: 200, y: 0 });
  expect(gestures.move(2, { x: 300, y: 0 })).toEqual({ kind: "pinch", at: { x: 200, y: 0 }, factor: 0.5, by: 50 });
  expect(gestures.up(2, { x: 300, y: 0 }).kind).toBe("none");
  expect(gestures.up(1, { x: 100, y: 0 }).kind).toBe("none");
});

it("never zooms without end when fingers meet", () => {
  const gestures = new Gestures();
  gestures.down(1, { x: 0, y: 0 });
  gestures.down(2, { x: 100, y: 0 });
  expect(gestures.move(2, { x: 0, y: 0 })).toMatchObject({ factor: 10 });
});

it("forgets a press that the system took for scrolling", () => {
  const gestures = new Gestures();
  gestures.down(1, { x: 0, y: 0 });
  gestures.cancel(1);
  expect(gestures.up(1, { x: 0, y: 0 }).kind).toBe("none");
  expect(gestures.move(1, { x: 50, y: 0 }).kind).toBe("hover");
});
