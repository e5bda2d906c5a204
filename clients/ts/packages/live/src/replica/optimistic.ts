/**
 * What a command is expected to change, shown until its answer is. Layers are played again, in
 * order, over each new answer, so that they never hide what the server says.
 */
import type { CachedQuery, Query } from "./query.ts";

/** What an optimistic function reads and writes. */
export interface OptimisticStore {
  /** The data of a query as they are shown; undefined while it has none. */
  get<T>(query: Query<T>): T | undefined;
  set<T>(query: Query<T>, data: T): void;
}

class Layer {
  readonly play: (store: OptimisticStore) => void;
  touched: Set<CachedQuery> = new Set();
  /** After the reply: those whose next answer is awaited. */
  awaited: Set<CachedQuery> | undefined;

  constructor(play: (store: OptimisticStore) => void) {
    this.play = play;
  }
}

export class Layers {
  private layers: Layer[] = [];
  private view: Map<CachedQuery, unknown> = new Map();
  private isPlaying = false;

  get(query: CachedQuery): { data: unknown } | undefined {
    return this.view.has(query) ? { data: this.view.get(query) } : undefined;
  }

  /** Adds a layer; what it returns ends it: at once after a failure, else when its answers are there. */
  add(play: (store: OptimisticStore) => void): (isReplied: boolean) => void {
    const layer = new Layer(play);
    this.layers.push(layer);
    try {
      this.replay();
    } catch (error) {
      this.drop(layer);
      throw error;
    }
    return (isReplied) => {
      // Whatever the command changed was told before its reply: it is there, or announced.
      const awaited = [...layer.touched].filter((query) => query.base.isStale && query.isUsed);
      layer.awaited = new Set(isReplied ? awaited : []);
      if (!layer.awaited.size) this.drop(layer);
    };
  }

  /** A query has an answer, or is confirmed. */
  answered(query: CachedQuery): void {
    if (!this.layers.length || this.isPlaying) return;
    if (!query.base.isStale) {
      for (const layer of [...this.layers]) {
        if (layer.awaited?.delete(query) && !layer.awaited.size) this.layers.splice(this.layers.indexOf(layer), 1);
      }
    }
    this.replay();
  }

  private drop(layer: Layer): void {
    const at = this.layers.indexOf(layer);
    if (at >= 0) this.layers.splice(at, 1);
    this.replay();
  }

  private replay(): void {
    const before = this.view;
    this.view = new Map();
    this.isPlaying = true;
    try {
      for (const layer of this.layers) {
        layer.touched = new Set();
        layer.play({
          get: (query) => {
            const kept = query as unknown as CachedQuery;
            return (this.view.has(kept) ? this.view.get(kept) : kept.base.data) as never;
          },
          set: (query, data) => {
            const kept = query as unknown as CachedQuery;
            layer.touched.add(kept);
            this.view.set(kept, data);
          },
        });
      }
    } finally {
      this.isPlaying = false;
      for (const query of new Set([...before.keys(), ...this.view.keys()])) query.show();
    }
  }
}
