/**
 * All that one message of the server changed is told at once, so that views never show half of it.
 * A reply's promise needs a few microtasks until whoever awaits it has acted; the telling waits for
 * that, still within the task of the message: an optimistic layer goes as its answer comes.
 */
import type { ListenerList } from "./current.ts";

const HOPS = 8;

export class Batch {
  private told: Set<ListenerList> = new Set();
  private first: Set<() => void> = new Set();

  /** Listeners to be told. */
  changed(list: ListenerList): void {
    if (!list.listeners.length) return;
    this.schedule();
    this.told.add(list);
  }

  /** Runs before listeners are told, once for a batch. */
  before(action: () => void): void {
    this.schedule();
    this.first.add(action);
  }

  private schedule(): void {
    if (!this.told.size && !this.first.size) hop(HOPS, () => this.flush());
  }

  private flush(): void {
    // What acts before may change more.
    for (const action of this.first) {
      this.first.delete(action);
      action();
    }
    const { told } = this;
    this.told = new Set();
    for (const { listeners } of told) {
      for (const listener of listeners) {
        try {
          listener();
        } catch (error) {
          queueMicrotask(() => {
            throw error;
          });
        }
      }
    }
  }
}

function hop(count: number, action: () => void): void {
  queueMicrotask(() => (count > 1 ? hop(count - 1, action) : action()));
}
