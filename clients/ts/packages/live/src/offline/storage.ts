/** Where data are kept between pages. What is asked of one key is done in that order. */

export interface OfflineStorage {
  get(key: string): Promise<Uint8Array | undefined>;
  set(key: string, value: Uint8Array): Promise<void>;
  /** The keys that begin so. */
  list(prefix: string): Promise<string[]>;
  /** Removes all whose key begins so. */
  remove(prefix: string): Promise<void>;
}

const STORE = "tidewire";

/** IndexedDB, in a database of its own. A write that was awaited outlives a crash of the page. */
export function indexedDbStorage(name: string = STORE): OfflineStorage {
  const opened = new Promise<IDBDatabase>((resolve, reject) => {
    const request = indexedDB.open(name, 1);
    request.onupgradeneeded = () => request.result.createObjectStore(STORE);
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
  const run = async <T>(mode: IDBTransactionMode, act: (store: IDBObjectStore) => IDBRequest<T>): Promise<T> => {
    const transaction = (await opened).transaction(STORE, mode, { durability: "strict" });
    const request = act(transaction.objectStore(STORE));
    // Also if the page ends before it hears of that.
    transaction.commit();
    return new Promise((resolve, reject) => {
      transaction.oncomplete = () => resolve(request.result);
      transaction.onabort = transaction.onerror = () => reject(transaction.error);
    });
  };
  return {
    get: (key) => run("readonly", (store) => store.get(key)),
    set: async (key, value) => void (await run("readwrite", (store) => store.put(value, key))),
    list: (prefix) => run("readonly", (store) => store.getAllKeys(beginning(prefix)) as IDBRequest<string[]>),
    remove: async (prefix) => void (await run("readwrite", (store) => store.delete(beginning(prefix)))),
  };
}

function beginning(prefix: string): IDBKeyRange {
  return IDBKeyRange.bound(prefix, `${prefix}\uffff`);
}
