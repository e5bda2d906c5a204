// Sockets without a network: messages wait until they are delivered, and a cut may fall at any byte.
import type { OpenSocket } from "../../packages/live/src/socket/dial.ts";
import type { Connection, Server } from "./peer.ts";

/** One connection: what was sent each way and has not arrived. */
export class FakeSocket {
  binaryType = "";
  bufferedAmount = 0;
  onopen: (() => void) | null = null;
  onmessage: ((event: { data: ArrayBuffer | string }) => void) | null = null;
  onclose: ((event: { code: number; reason: string }) => void) | null = null;
  onerror: (() => void) | null = null;
  state: "connecting" | "open" | "closed" = "connecting";
  readonly toServer: Uint8Array[] = [];
  readonly toClient: Uint8Array[] = [];
  private readonly network: Network;
  private connection: Connection | undefined;
  closedWith: number | undefined;
  private closeCode: number | undefined;

  constructor(network: Network) {
    this.network = network;
  }

  send(data: Uint8Array): void {
    if (this.state === "open") this.toServer.push(new Uint8Array(data));
  }

  close(code = 1005): void {
    this.closedWith = code;
    if (this.state === "open") while (this.deliver("toServer"));
    this.over(code, true);
  }

  open(): void {
    if (this.state !== "connecting") return;
    this.state = "open";
    this.connection = this.network.server.accept({
      send: (message) => this.toClient.push(new Uint8Array(message)),
      close: (code) => (this.closeCode = code),
    });
    this.onopen?.();
  }

  /** Delivers the oldest message; false when there is none. */
  deliver(way: "toServer" | "toClient"): boolean {
    const message = this.state === "open" ? this[way].shift() : undefined;
    if (!message) {
      if (way === "toClient" && this.closeCode !== undefined && this.state === "open") this.over(this.closeCode);
      return false;
    }
    if (way === "toServer") this.connection!.receive(message);
    else this.onmessage?.({ data: message.buffer as ArrayBuffer });
    return true;
  }

  /** The connection breaks after so many bytes each way: a message that is not whole never arrives. */
  cut(bytesToServer: number, bytesToClient: number): void {
    for (const [way, bytes] of [["toServer", bytesToServer], ["toClient", bytesToClient]] as const) {
      let left = bytes;
      while (this[way].length && this[way][0]!.length <= left) {
        left -= this[way][0]!.length;
        this.deliver(way);
      }
    }
    this.over(1006);
  }

  private over(code: number, isOwn = false): void {
    if (this.state === "closed") return;
    this.state = "closed";
    this.connection?.gone();
    this.network.sockets.delete(this);
    if (!isOwn) this.onclose?.({ code, reason: "" });
  }
}

export class Network {
  readonly server: Server;
  readonly sockets: Set<FakeSocket> = new Set();
  dials = 0;
  /** Connections fail at once. */
  isDown = false;
  /** Connections hang while they are made. */
  isStuck = false;

  constructor(server: Server) {
    this.server = server;
  }

  readonly webSocket: OpenSocket = () => {
    this.dials++;
    const socket = new FakeSocket(this);
    this.sockets.add(socket);
    return socket as unknown as WebSocket;
  };

  get socket(): FakeSocket | undefined {
    return [...this.sockets].at(-1);
  }

  /** Delivers all that is on its way, and what comes of it. */
  async settle(): Promise<void> {
    for (let quiet = 0; quiet < 3; ) {
      await new Promise(setImmediate);
      let isMoving = false;
      for (const socket of [...this.sockets]) {
        if (socket.state === "connecting" && this.isStuck) continue;
        if (socket.state === "connecting" && !this.isDown) {
          socket.open();
          isMoving = true;
        } else if (socket.state === "connecting") {
          socket.cut(0, 0);
          isMoving = true;
        }
        if (socket.deliver("toServer")) isMoving = true;
        if (socket.deliver("toClient")) isMoving = true;
      }
      if (this.server.run()) isMoving = true;
      quiet = isMoving ? 0 : quiet + 1;
    }
  }
}
