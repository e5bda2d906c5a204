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
  /** Whose methods are used: data of another schema are not read. */
  services: DescService[];
  /** Names the user, such as an account's id. Without one nothing is stored. */
  principalKey: string | undefined;
  /** IndexedDB by default. */
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
  /** Runs a command, or stores it until there is a connection. */
  mutate<I extends DescMessage, O extends DescMessage>(
    method: DescMethodUnary<I, O>,
    input: MessageInitShape<I>,
  ): Promise<MessageShape<O>>;
  /** The commands that wait. */
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
  const storage = principalKey === undefined ? undefined : (options.storage ?? indexedDbStorage());
  const user = `${encodeURIComponent(principalKey ?? "")}/`;
  const prefix = `${user}${await schemaHash(services)}/`;
  const place = `${prefix}outbox/${toHex(crypto.getRandomValues(new Uint8Array(16)))}`;
  const mark = `${user}mark`;
  let saved = "";
  let isOver = false;
  let isSignedOut = false;
  /** Writes, unless the user has signed out meanwhile, which removed the mark. */
  const write = async (key: string, bytes: Uint8Array | undefined) => {
    if (!storage) return;
    if (!isSignedOut && !(await storage.get(mark))) forget();
    if (isSignedOut) throw signedOut();
    await (bytes ? storage.set(key, bytes) : storage.remove(key));
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
  const release = await hold(place);
  const adopt = async () => {
    for (const other of (await storage?.list(`${prefix}outbox/`)) ?? []) {
      if (isOver || other === place) continue;
      await ifFree(other, async () => {
        const commands = await storage!.get(other);
        if (commands) await outbox.adopt(commands, methods);
        await storage!.remove(other);
      });
    }
  };
  if (storage) {
    await storage.set(mark, new Uint8Array([1]));
    const replicas = await storage.get(`${prefix}replicas`);
    if (replicas) client.hydrate((saved = base64Encode(replicas)));
    await adopt();
  }
  const store = async () => {
    if (isOver || !storage) return;
    const text = client.dehydrate();
    if (text === saved || text.length > (bytesMax * 4) / 3) return;
    await write(`${prefix}replicas`, base64Decode(text)).catch((error) => {
      if (!isSignedOut) throw error;
    });
    saved = text;
  };
  let saving = Promise.resolve();
  // One after the other: who awaits it finds the data stored, also if that was under way.
  const save = () => (saving = saving.catch(() => {}).then(store));
  const saveSometime = () => void save().catch(() => {}); // Tried again with the next change.
  const timer = setInterval(() => {
    saveSometime();
    void outbox.send();
  }, SAVE_EVERY);
  const channel = storage && new BroadcastChannel(`tidewire ${user}`);
  for (const one of [timer, channel]) (one as { unref?(): void } | undefined)?.unref?.();
  globalThis.document?.addEventListener("visibilitychange", saveSometime);
  const stopListening = transport.connection.subscribe(() => {
    if (transport.connection.getSnapshot().status === "open") void adopt();
    void outbox.send();
  });
  void outbox.send();
  const close = () => {
    isOver = outbox.isClosed = true;
    clearInterval(timer);
    channel?.close();
    globalThis.document?.removeEventListener("visibilitychange", saveSometime);
    stopListening();
    release();
  };
  const forget = () => {
    if (isOver) return;
    isSignedOut = true;
    close();
    client.clear();
    options.onSignOut?.();
  };
  if (channel) channel.onmessage = forget;
  return {
    mutate: (method, input) => {
      if (isSignedOut) return Promise.reject(signedOut());
      const { status } = transport.connection.getSnapshot();
      const isOpen = status === "open" || status === "fallback";
      // With a connection, and nothing before it, a command needs no key of ours.
      return isOpen && !outbox.getSnapshot().length ? client.mutate(method, input) : outbox.add(method, input);
    },
    outbox,
    save,
    signOut: async () => {
      isSignedOut = true;
      await storage?.remove(user);
      channel?.postMessage(0);
      close();
      client.clear();
    },
    close,
  };
}

const signedOut = () => new ConnectError("the user has signed out", Code.Unauthenticated);

function toHex(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Holds the lock of a place until what it returns is called, or the page is gone. */
async function hold(place: string): Promise<() => void> {
  let release = () => {};
  const over = new Promise<void>((resolve) => (release = resolve));
  // Without locks a page cannot tell whether others are there; all browsers with IndexedDB have them.
  const { locks } = globalThis.navigator ?? {};
  if (locks) await new Promise<void>((held) => void locks.request(`tidewire ${place}`, () => (held(), over)));
  return release;
}

/** Acts while no page holds the lock of a place. */
async function ifFree(place: string, act: () => Promise<void>): Promise<void> {
  const { locks } = globalThis.navigator ?? {};
  if (!locks) return act();
  await locks.request(`tidewire ${place}`, { ifAvailable: true }, (lock) => lock && act());
}
