/** An answer over 64 KiB is watched by name, and asked for by a query of its own (section 5.3). */
import type { Call, CallOptions } from "../session/call.ts";
import type { FailedEvent, SessionEvent } from "../session/event.ts";
import type { Owner, Socket } from "../socket/socket.ts";

export interface LargeEvents {
  /** Its bytes, or undefined when what is held is right; and its name. */
  whole(data: Uint8Array | undefined, named: string | undefined): void;
  failed(event: FailedEvent): void;
  /** After either. */
  over(): void;
}

export class Large implements Owner {
  private readonly socket: Socket;
  private readonly events: LargeEvents;
  private call: Call | undefined;
  private data: Uint8Array | undefined;
  private named: string | undefined;

  constructor(socket: Socket, events: LargeEvents) {
    this.socket = socket;
    this.events = events;
  }

  ask(options: CallOptions): void {
    this.call ??= this.socket.call({ ...options, owner: this });
  }

  cancel(): void {
    if (this.call) this.socket.session.cancel(this.call);
    this.call = undefined;
  }

  on(event: SessionEvent & { call: Call }): void {
    if (event.call !== this.call) return;
    if (event.type === "items") {
      this.data = event.items[0];
      this.socket.session.consumed(event.call, event.bytes);
    } else if (event.type === "piece") {
      this.data = event.item ?? this.data;
    } else if (event.type === "reply") {
      this.named = event.isUnchanged ? event.call.options.validator : event.meta.validator;
      if (event.then === "nothing") this.whole(event.isUnchanged ? undefined : event.payload);
    } else if (event.type === "end") {
      this.whole(this.data);
    } else if (event.type === "failed") {
      this.call = undefined;
      this.events.failed(event);
    }
    this.events.over();
  }

  private whole(data: Uint8Array | undefined): void {
    this.call = this.data = undefined;
    this.events.whole(data, this.named);
  }
}
