/** The application's headers: asked for at each connection, before they expire, and when refused. */
import { putHeaders } from "../wire/metadata.ts";
import { Writer } from "../wire/varint.ts";

export type Why = "connect" | "expiring" | "refused";
export type GetHeaders = (why: Why) => HeadersInit | Promise<HeadersInit>;

/** How long the application may take to give headers. */
const PATIENCE = 10_000;

export class Credentials {
  private readonly get: GetHeaders | undefined;
  private names: string[] = [];
  private asking: Promise<Uint8Array> | undefined;

  constructor(get: GetHeaders | undefined) {
    this.get = get;
  }

  get canRefresh(): boolean {
    return !!this.get;
  }

  /** The headers as metadata; those that were given before and are not any more are removed. */
  async ask(why: Why): Promise<Uint8Array> {
    const { get } = this;
    if (!get) return new Uint8Array(0);
    // One question at a time: a storm of refusals asks once.
    this.asking ??= this.answer(get, why).finally(() => (this.asking = undefined));
    return this.asking;
  }

  private async answer(get: GetHeaders, why: Why): Promise<Uint8Array> {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const late = new Promise<never>((_, reject) => {
      timer = setTimeout(() => reject(new Error("headers() gave nothing within 10 s")), PATIENCE);
    });
    try {
      const given = [...new Headers(await Promise.race([get(why), late]))] as [string, string][];
      const gone = this.names.filter((name) => !given.some(([other]) => other === name));
      this.names = given.map(([name]) => name);
      const writer = new Writer();
      // A new connection begins without those before.
      if (why !== "connect") putHeaders(writer, gone.map((name) => [name, ""] as const));
      putHeaders(writer, given);
      return writer.take();
    } finally {
      clearTimeout(timer);
    }
  }
}
