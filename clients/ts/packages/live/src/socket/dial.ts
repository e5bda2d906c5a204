/** Opens a WebSocket, and says once how that ended. */

export type OpenSocket = (url: string, protocols: string[]) => WebSocket;

export const PROTOCOL = "tidewire.live.v1";

export interface SocketEvents {
  open(): void;
  message(data: unknown): void;
  /** Once, whether it was open or not; `code` is that of the close frame, 1006 without one. */
  close(code: number, reason: string): void;
}

/** The address of the live protocol on the server at `baseUrl`. */
export function socketUrl(baseUrl: string): string {
  const base = globalThis.location?.href;
  const url = new URL(baseUrl.replace(/\/*$/, `/${PROTOCOL}`), base);
  url.protocol = url.protocol.replace("http", "ws");
  return url.href;
}

/** Dials; what is returned writes and ends the connection. */
export function dial(url: string, openSocket: OpenSocket | undefined, events: SocketEvents) {
  let isOver = false;
  const over = (code: number, reason: string) => {
    if (isOver) return;
    isOver = true;
    events.close(code, reason);
  };
  let socket: WebSocket | undefined;
  try {
    socket = openSocket ? openSocket(url, [PROTOCOL]) : new WebSocket(url, [PROTOCOL]);
    socket.binaryType = "arraybuffer";
    socket.onopen = () => isOver || events.open();
    socket.onmessage = ({ data }) => isOver || events.message(data);
    socket.onclose = ({ code, reason }) => over(code, reason);
    // `close` follows in the same task; but not in Chromium where a policy forbids the socket.
    socket.onerror = () => void setTimeout(() => over(1006, ""));
  } catch (error) {
    // No WebSocket here, or one that a policy forbids.
    queueMicrotask(() => over(1006, String(error)));
  }
  return {
    get unsent(): number {
      return socket?.bufferedAmount ?? 0;
    },
    send(data: Uint8Array): void {
      if (!isOver) socket?.send(data as Uint8Array<ArrayBuffer>);
    },
    /** Ends it now: nothing more is heard but the close, which does not wait for the peer. */
    end(code = 1000): void {
      over(1006, "");
      try {
        socket?.close(code);
      } catch {
        // It was closed before it was open.
      }
    },
  };
}

export type RawSocket = ReturnType<typeof dial>;
