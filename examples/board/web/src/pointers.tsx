// Where the others are: a stream each way, for as long as the component is shown.
import { createClient } from "@connectrpc/connect";
import type { LiveTransport } from "@tidewire/live";
import { useEffect, useState } from "react";
import { Board, type Pointer } from "./gen/board/v1/board_pb.ts";

const EVERY = 50;

export function Pointers({ transport }: { transport: LiveTransport }) {
  const [pointers, setPointers] = useState<ReadonlyMap<string, Pointer>>(new Map());
  useEffect(() => {
    const controller = new AbortController();
    const board = createClient(Board, transport);
    const show = (pointer: Pointer) =>
      setPointers((before) => {
        const after = new Map(before);
        if (pointer.left) after.delete(pointer.who);
        else after.set(pointer.who, pointer);
        return after;
      });
    const run = async () => {
      while (!controller.signal.aborted) {
        try {
          for await (const pointer of board.meet(moves(controller.signal), { signal: controller.signal })) show(pointer);
        } catch {
          // The stream is lost with its session; the next one begins a second later.
        }
        setPointers(new Map());
        await new Promise((resolve) => setTimeout(resolve, 1_000));
      }
    };
    void run();
    return () => controller.abort();
  }, [transport]);
  return [...pointers.values()].map(({ who, x, y }) => (
    <span key={who} className="pointer" style={{ left: `${x / 10}%`, top: `${y / 10}%`, color: `#${who}` }}>
      ➤
    </span>
  ));
}

/** This tab's pointer, at most every 50 ms. */
async function* moves(signal: AbortSignal) {
  const who = Math.floor(Math.random() * 0xffffff).toString(16).padStart(6, "0");
  let at = { x: 500, y: 500 };
  let moved = () => {};
  const move = (event: PointerEvent) => {
    at = { x: Math.round((event.clientX * 1000) / innerWidth), y: Math.round((event.clientY * 1000) / innerHeight) };
    moved();
  };
  addEventListener("pointermove", move);
  try {
    while (!signal.aborted) {
      yield { who, ...at };
      await new Promise<void>((resolve) => {
        moved = resolve;
        signal.addEventListener("abort", () => resolve(), { once: true });
      });
      await new Promise((resolve) => setTimeout(resolve, EVERY));
    }
  } finally {
    removeEventListener("pointermove", move);
  }
}
