/**
 * Ties a client to a storage: what it held is there at once after a reload, and is confirmed.
 *
 * Tabs share what is stored, but not the commands that wait: each page has a place for its own, and
 * holds a lock that says that it is there. Who finds a place without its page takes the commands over.
 */
import type { DescMessage, DescMethodUnary, DescService, MessageInitShape, MessageShape } from "@bufbuild/protobuf";
import { base64Decode, base64Encode } from "@bufbuild/protobuf/wire";
import type { LiveClient } from "../replica/index.ts";
import type { Store } from "../socket/state.ts";
import { Code, ConnectError } from "@connectrpc/connect";
import { pathOf } from "../transport/method.ts";
import type { LiveTransport } from "../transport/transport.ts";
import { Outbox, type OutboxEntry, type Outcome } from "./outbox.ts";
import { schemaHash } from "./schema.ts";
import { indexedDbStorage, type OfflineStorage } from "./storage.ts";

export interface OfflineOptions {
  client: LiveClient;
  transport: LiveTransport;
  /**
   * Whose methods are used. Data of another schema are not read. Commands that a page of another one
   * left are sent, and those of other services left to the pages that use these, for a day.
   */
  services: DescService[];
  /** Names the user, such as an account's id. Without one nothing is stored. */
  principalKey: string | undefined;
  /** IndexedDB by default. Used in secure contexts only: what keeps tabs apart, Web Locks, is there alone. */
  storage?: OfflineStorage;
  /** Commands that may wait for a connection: 100. */
  commandsMax?: number;
  /** Data beyond this are not stored: 5 MB. */
  bytesMax?: number;
  /** What became of a command that waited, also of one that an earlier page made. */
  onOutcome?(outcome: Outcome): void;
  /** The user signed out in another tab: this one has forgotten what it held, and shows nothing of it. */
  onSignOut?(): void;
}

export interface Offline {
  /**
   * Runs a command, or stores it until there is a connection. What is sent at once is stored if no
   * answer comes: a page that is closed before leaves it to the next one, which sends it again
   * under the same key.
   */
  mutate<I extends DescMessage, O extends DescMessage>(
    method: DescMethodUnary<I, O>,
    input: MessageInitShape<I>,
  ): Promise<MessageShape<O>>;
  /** Whether anything outlives the page: there is a principal, and the page is a secure context. */
  readonly isStored: boolean;
  /** The commands that wait, for a connection or, after a second, for their answer. */
  readonly outbox: Store<readonly OutboxEntry[]>;
  /** Stores what the client holds now. It is done every few seconds, and when the page is hidden. */
  save(): Promise<void>;
  /** Removes all that is stored of this user, and forgets what clients hold, in all tabs. */
  signOut(): Promise<void>;
  close(): void;
}

const SAVE_EVERY = 5_000;

/** Restores what was stored, before anything is shown. */
export async function createOffline(options: OfflineOptions): Promise<Offline> {
  const { client, transport, services, principalKey, commandsMax = 100, bytesMax = 5_000_000 } = options;
  const canStore = principalKey !== undefined && !!locksHere() && !!crypto.subtle;
  const storage = canStore ? (options.storage ?? indexedDbStorage()) : undefined;
  const user = `${encodeURIComponent(principalKey ?? "")}/`;
  // Pages with other services keep data of their own; those of another schema of the same ones are of no more use.
  const shelf = `${user}replicas/${services.map(({ typeName }) => typeName).sort()}/`;
  const replicas = `${shelf}${storage ? await schemaHash(services) : ""}`;
  const place = `${user}outbox/${toHex(crypto.getRandomValues(new Uint8Array(16)))}`;
  const mark = `${user}mark`;
  let saved = "";
  let isOver = false;
  let isSignedOut = false;
  const write = async (key: string, bytes: Uint8Array | undefined) => {
    if (!storage) return;
    if (isSignedOut) throw signedOut();
    // At once: of what a page does that ends now, only what it has begun is done.
    await (bytes ? storage.set(key, bytes) : storage.remove(key));
    // The user signed out, if not here then in another tab, which removed the mark.
    if (!isSignedOut && !(await storage.get(mark))) forget();
    if (!isSignedOut) return;
    await storage.remove(key); // It may have been written after all was removed.
    throw signedOut();
  };
  const outbox = new Outbox(
    transport,
    commandsMax,
    (bytes) => write(place, bytes),
    (outcome) => options.onOutcome?.(outcome),
  );
  const methods = new Map<string, DescMethodUnary>();
  for (const service of services) {
    for (const one of service.methods) if (one.methodKind === "unary") methods.set(pathOf(one), one as DescMethodUnary);
  }
  const names = new Set(services.map(({ typeName }) => `/${typeName}/`));
  const adopt = async (storage: OfflineStorage, isNewest = false) => {
    for (const other of await storage.list(`${user}outbox/`)) {
      if (isOver || other === place) continue;
      await ifFree(other, async () => {
        const commands = await storage.get(other);
        if (!commands) return;
        const left = await outbox.adopt(commands, { methods, services: names, isNewest });
        if (left !== commands) await write(other, left);
      });
    }
  };
  const release = storage ? await hold(place) : () => {};
  if (storage) {
    try {
      await storage.set(mark, new Uint8Array([1]));
      for (const other of await storage.list(shelf)) if (other !== replicas) await storage.remove(other);
      const data = await storage.get(replicas);
      if (data) client.hydrate((saved = base64Encode(data)));
      await adopt(storage, true);
    } catch (error) {
      release();
      throw error;
    }
  }
  const store = async () => {
    if (isOver || !storage) return;
    const text = client.dehydrate();
    if (text === saved || text.length > (bytesMax * 4) / 3) return;
    await write(replicas, base64Decode(text)).catch((error) => {
      if (!isSignedOut) throw error;
    });
    saved = text;
  };
  let saving = Promise.resolve();
  // One after the other: who awaits it finds the data stored, also if that was under way.
  const save = () => (saving = saving.catch(() => {}).then(store));
  const saveSometime = () => void save().catch(() => {}); // Tried again with the next change.
  /** Also what others left; what fails is tried again by the timer. */
  const sendSometime = () => {
    if (storage && !isOver && outbox.isReached) adopt(storage).catch(() => {});
    void outbox.send();
  };
  const timer = setInterval(() => {
    saveSometime();
    sendSometime();
  }, SAVE_EVERY);
  const channel = storage && new BroadcastChannel(`tidewire ${user}`);
  for (const one of [timer, channel]) (one as { unref?(): void } | undefined)?.unref?.();
  const leave = () => {
    // A page that is hidden may never run again.
    if (document.visibilityState === "hidden") void outbox.keepSent();
    saveSometime();
  };
  globalThis.document?.addEventListener("visibilitychange", leave);
  const stopListening = transport.connection.subscribe(sendSometime);
  void outbox.send();
  const close = (error = new ConnectError("the page, or what it stores, was closed", Code.Canceled)) => {
    if (isOver) return;
    isOver = true;
    clearInterval(timer);
    channel?.close();
    globalThis.document?.removeEventListener("visibilitychange", leave);
    stopListening();
    // What is being sent is this page's until it has ended.
    void outbox.close(error).then(release);
  };
  const forget = () => {
    const isNews = !isOver;
    isSignedOut = true;
    outbox.clear(signedOut());
    close(signedOut());
    if (!isNews) return;
    client.clear();
    options.onSignOut?.();
  };
  if (channel) channel.onmessage = forget;
  return {
    isStored: !!storage,
    mutate: (method, input) => {
      if (isSignedOut) return Promise.reject(signedOut());
      return !isOver && outbox.isReached && outbox.isEmpty ? outbox.sendNow(method, input) : outbox.add(method, input);
    },
    outbox,
    save,
    signOut: async () => {
      isSignedOut = true;
      try {
        await storage?.remove(user);
      } finally {
        if (!isOver) channel?.postMessage(0);
        outbox.clear(signedOut());
        close(signedOut());
        client.clear();
      }
    },
    close: () => close(),
  };
}

const signedOut = () => new ConnectError("the user has signed out", Code.Unauthenticated);

function toHex(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/**
 * Those of the browser. Without them, as in a page that is not a secure context, a page cannot tell
 * which commands are of a page that is still there.
 */
function locksHere(): LockManager | undefined {
  return globalThis.navigator?.locks;
}

/** Holds the lock of a place until what it returns is called, or the page is gone. */
function hold(place: string): Promise<() => void> {
  return new Promise((held, failed) => {
    locksHere()!
      .request(`tidewire ${place}`, () => new Promise<void>((release) => held(release)))
      .catch(failed);
  });
}

/** Acts while no page holds the lock of a place. */
async function ifFree(place: string, act: () => Promise<void>): Promise<void> {
  await locksHere()!.request(`tidewire ${place}`, { ifAvailable: true }, (lock) => lock && act());
}
