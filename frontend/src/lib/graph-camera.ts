/** What part of the picture is on the screen. */

export interface Camera {
  /** The point of the picture in the left upper corner of the screen. */
  readonly x: number;
  readonly y: number;
  /** Pixels of the screen for one of the picture. */
  readonly scale: number;
}

export interface Extent {
  readonly width: number;
  readonly height: number;
}

export interface Area extends Extent {
  readonly x: number;
  readonly y: number;
}

const LEAST_SCALE = 0.02;
const MOST_SCALE = 3;
const MARGIN = 24;
/** Text of boxes can be read from here on. */
const READABLE = 0.62;

/** The whole picture in the middle of the screen, at its own size at most. */
export function fitted(scene: Extent, screen: Extent): Camera {
  const scale = limited(
    Math.min((screen.width - 2 * MARGIN) / scene.width, (screen.height - 2 * MARGIN) / scene.height, 1),
  );
  return { scale, x: (scene.width - screen.width / scale) / 2, y: (scene.height - screen.height / scale) / 2 };
}

/** As much of the picture as can be read, from its beginning. */
export function opening(scene: Extent, screen: Extent, start: Area | null): Camera {
  const whole = fitted(scene, screen);
  if (whole.scale >= READABLE) return whole;
  const scale = limited(Math.min(Math.max((screen.width - 2 * MARGIN) / scene.width, READABLE), 1));
  const centre = start ? start.x + start.width / 2 : scene.width / 2;
  const isWide = scene.width > screen.width / scale;
  const x = isWide ? centre - screen.width / scale / 2 : (scene.width - screen.width / scale) / 2;
  return { scale, x, y: -MARGIN / scale };
}

/** Larger by `factor`; the point of the screen stays where it is. */
export function zoomed(camera: Camera, at: { readonly x: number; readonly y: number }, factor: number): Camera {
  const scale = limited(camera.scale * factor);
  return { scale, x: camera.x + at.x / camera.scale - at.x / scale, y: camera.y + at.y / camera.scale - at.y / scale };
}

/** Moved by pixels of the screen, as a hand moves a sheet of paper. */
export function panned(camera: Camera, byX: number, byY: number): Camera {
  return { ...camera, x: camera.x - byX / camera.scale, y: camera.y - byY / camera.scale };
}

/** Some of the picture always stays on the screen. */
export function kept(camera: Camera, scene: Extent, screen: Extent): Camera {
  const [width, height] = [screen.width / camera.scale, screen.height / camera.scale];
  const hold = (at: number, seen: number, size: number): number => {
    const margin = Math.min(seen, size) * 0.3;
    return Math.min(Math.max(at, margin - seen), size - margin);
  };
  return { ...camera, x: hold(camera.x, width, scene.width), y: hold(camera.y, height, scene.height) };
}

/** Moved, and enlarged until text can be read, such that the area is in the middle. */
export function centred(camera: Camera, area: Area, screen: Extent): Camera {
  const fits = Math.min((screen.width - 2 * MARGIN) / area.width, (screen.height - 2 * MARGIN) / area.height);
  const scale = limited(Math.min(Math.max(camera.scale, READABLE), fits));
  return {
    scale,
    x: area.x + area.width / 2 - screen.width / scale / 2,
    y: area.y + area.height / 2 - screen.height / scale / 2,
  };
}

/** Moved just so far that the area is seen. */
export function revealed(camera: Camera, area: Area, screen: Extent): Camera {
  const margin = MARGIN / camera.scale;
  const shift = (at: number, seen: number, from: number, size: number): number => {
    if (from - margin < at) return from - margin;
    return from + size + margin > at + seen ? from + size + margin - seen : at;
  };
  return {
    ...camera,
    x: shift(camera.x, screen.width / camera.scale, area.x, area.width),
    y: shift(camera.y, screen.height / camera.scale, area.y, area.height),
  };
}

export function toScene(camera: Camera, x: number, y: number): { readonly x: number; readonly y: number } {
  return { x: camera.x + x / camera.scale, y: camera.y + y / camera.scale };
}

/** A point between two cameras; scales change evenly to the eye. */
export function between(from: Camera, to: Camera, share: number): Camera {
  const scale = from.scale * (to.scale / from.scale) ** share;
  // The middle of the screen moves evenly in the picture, whatever the scales are.
  const mix = (a: number, b: number): number => a + (b - a) * share;
  return { scale, x: mix(from.x, to.x), y: mix(from.y, to.y) };
}

function limited(scale: number): number {
  return Math.min(Math.max(Number.isFinite(scale) ? scale : 1, LEAST_SCALE), MOST_SCALE);
}
