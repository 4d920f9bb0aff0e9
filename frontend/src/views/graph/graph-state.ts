import { computed, signal, type ReadonlySignal, type Signal } from "@preact/signals";
import { graphTree } from "../../lib/graph-build";
import { type Camera, centred, kept, revealed, type Extent } from "../../lib/graph-camera";
import {
  type Expansion,
  expansionAtStart,
  expansionOfAll,
  revealing,
  standIn,
  toggled,
} from "../../lib/graph-expansion";
import { fold } from "../../lib/graph-fold";
import { type Scene, type SceneLine, sceneOf } from "../../lib/graph-scene";
import { type GraphTree, isContainer, type Item } from "../../lib/graph-tree";
import type { GraphData } from "../../wire/types";
import { SIZES } from "./sizes";

/** What the pointer is on. */
export type Hovered =
  | { readonly kind: "box"; readonly id: number }
  | { readonly kind: "line"; readonly line: SceneLine }
  | null;

/** Everything that one looks at and changes in the graph of one run. */
export class GraphState {
  readonly tree: GraphTree;
  readonly open: Signal<Expansion>;
  readonly scene: ReadonlySignal<Scene>;
  readonly selected = signal<number | null>(null);
  readonly hovered = signal<Hovered>(null);
  /** null: as the picture opens, before anybody moved it. */
  readonly camera = signal<Camera | null>(null);
  /** Of the canvas, in CSS pixels. */
  readonly screen = signal<Extent>({ width: 0, height: 0 });

  constructor(graph: GraphData) {
    this.tree = graphTree(graph);
    fold(this.tree);
    this.open = signal(expansionAtStart(this.tree));
    this.scene = computed(() => sceneOf(this.tree, this.open.value, SIZES));
  }

  item(id: number | null): Item | null {
    return id === null ? null : (this.tree.items[id] ?? null);
  }

  /** Opens or closes a container; it stays where it is on the screen. */
  toggle(id: number): void {
    const item = this.item(id);
    if (!item || !isContainer(item)) return;
    this.changeOpen(toggled(this.tree, this.open.peek(), id), id);
    const shown = this.selected.peek();
    if (shown !== null) this.selected.value = standIn(this.tree.items, this.open.peek(), shown);
  }

  openAll(): void {
    this.changeOpen(expansionOfAll(this.tree), null);
  }

  openAsAtStart(): void {
    this.changeOpen(expansionAtStart(this.tree), null);
    this.selected.value = null;
  }

  /** Selects an item, opens what hides it, and brings it into the middle of the screen. */
  show(id: number): void {
    this.open.value = revealing(this.tree, this.open.peek(), id);
    this.selected.value = id;
    const box = this.scene.peek().byItem.get(id);
    const screen = this.screen.peek();
    const camera = this.camera.peek();
    if (box && camera && screen.width > 0) this.camera.value = centred(camera, box, screen);
  }

  /** Selects, and moves the picture only as far as is needed to see it. */
  select(id: number): void {
    this.selected.value = id;
    const box = this.scene.peek().byItem.get(id);
    const camera = this.camera.peek();
    if (box && camera)
      this.camera.value = revealed(
        camera,
        { ...box, height: box.isOpen ? SIZES.title : box.height },
        this.screen.peek(),
      );
  }

  move(camera: Camera): void {
    this.camera.value = kept(camera, this.scene.peek(), this.screen.peek());
  }

  private changeOpen(open: Expansion, anchor: number | null): void {
    const before = anchor === null ? undefined : this.scene.peek().byItem.get(anchor);
    this.open.value = open;
    const after = anchor === null ? undefined : this.scene.peek().byItem.get(anchor);
    const camera = this.camera.peek();
    this.hovered.value = null;
    if (!before || !after || !camera) {
      this.camera.value = null;
      return;
    }
    const middle = (box: { x: number; width: number }): number => box.x + box.width / 2;
    this.camera.value = { ...camera, x: camera.x + middle(after) - middle(before), y: camera.y + after.y - before.y };
  }
}
