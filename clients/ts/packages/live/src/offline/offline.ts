/** Ties a client to a storage: what it held is there at once after a reload, and is confirmed. */
import type { DescMessage, DescMethodUnary, DescService, MessageInitShape, MessageShape } from "@bufbuild/protobuf";
import { base64Decode, base64Encode } from "@bufbuild/protobuf/wire";
import type { LiveClient } from "../replica/index.ts";
import type { Store } from "../socket/state.ts";
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
  /** Removes all that is stored of this user, and forgets what the client holds. */
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
  const outbox = new Outbox(
    transport,
    commandsMax,
    async (bytes) => storage?.set(`${prefix}outbox`, bytes),
    (outcome) => options.onOutcome?.(outcome),
  );
  let saved = "";
  let isOver = false;
  if (storage) {
    const [replicas, commands] = await Promise.all([storage.get(`${prefix}replicas`), storage.get(`${prefix}outbox`)]);
    if (replicas) client.hydrate((saved = base64Encode(replicas)));
    const methods = services.flatMap((service) => service.methods.filter((one) => one.methodKind === "unary"));
    if (commands) outbox.read(commands, new Map(methods.map((one) => [pathOf(one), one as DescMethodUnary])));
  }
  const save = async () => {
    if (isOver || !storage) return;
    const text = client.dehydrate();
    if (text === saved || text.length > (bytesMax * 4) / 3) return;
    saved = text;
    await storage.set(`${prefix}replicas`, base64Decode(text));
  };
  const timer = setInterval(() => void save(), SAVE_EVERY);
  (timer as { unref?(): void }).unref?.();
  const hidden = () => void save();
  globalThis.document?.addEventListener("visibilitychange", hidden);
  const stopListening = transport.connection.subscribe(() => void outbox.send());
  void outbox.send();
  const close = () => {
    isOver = outbox.isClosed = true;
    clearInterval(timer);
    globalThis.document?.removeEventListener("visibilitychange", hidden);
    stopListening();
  };
  return {
    mutate: (method, input) => {
      const isOpen = transport.connection.getSnapshot().status === "open";
      // With a connection, and nothing before it, a command needs no key of ours.
      return isOpen && !outbox.getSnapshot().length ? client.mutate(method, input) : outbox.add(method, input);
    },
    outbox,
    save,
    signOut: async () => {
      close();
      await storage?.remove(user);
      client.clear();
    },
    close,
  };
}
