/**
 * All that one message of the server changed is told at once, so that views never show half of it.
 * A reply's promise needs a few microtasks until whoever awaits it has acted; the telling waits for
 * that, still within the task of the message: an optimistic layer goes as its answer comes.
 */
const HOPS = 8;

export class Batch {
  private sets: Set<Set<() => void>> = new Set();
  private first: Set<() => void> = new Set();

  /** Listeners to be told. */
  changed(listeners: Set<() => void>): void {
    if (!listeners.size) return;
    this.schedule();
    this.sets.add(listeners);
  }

  /** Runs before listeners are told, once for a batch. */
  before(action: () => void): void {
    this.schedule();
    this.first.add(action);
  }

  private schedule(): void {
    if (!this.sets.size && !this.first.size) hop(HOPS, () => this.flush());
  }

  private flush(): void {
    // What acts before may change more.
    for (const action of this.first) {
      this.first.delete(action);
      action();
    }
    const { sets } = this;
    this.sets = new Set();
    for (const listeners of sets) {
      for (const listener of [...listeners]) {
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
