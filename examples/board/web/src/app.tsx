// The board: columns of tasks, a line that says whether it is current, pointers of the others.
import { createClient } from "@connectrpc/connect";
import type { LiveTransport } from "@tidewire/live";
import type { Offline } from "@tidewire/live/offline";
import { useConnectionState, useLiveClient, useMutation, useQuery } from "@tidewire/react";
import { useState, useSyncExternalStore } from "react";
import { Board, Column, type ListReply, type Task } from "./gen/board/v1/board_pb.ts";
import { Pointers } from "./pointers.tsx";

const { list, change, remove } = Board.method;
const COLUMNS = [
  { column: Column.TODO, title: "To do" },
  { column: Column.DOING, title: "Doing" },
  { column: Column.DONE, title: "Done" },
];

export function App({ transport, offline }: { transport: LiveTransport; offline: Offline }) {
  const board = useQuery(list, {});
  const tasks = board.data?.tasks ?? [];
  return (
    <main className={board.isStale ? "stale" : ""}>
      <header>
        <h1>Board</h1>
        <Add offline={offline} />
        <Meddle transport={transport} />
        <Connection offline={offline} isStale={board.isStale} />
      </header>
      {board.status === "error" && <p role="alert">{board.error?.message}</p>}
      <div className="columns">
        {COLUMNS.map(({ column, title }) => (
          <section key={column} aria-label={title}>
            <h2>{title}</h2>
            {tasks.filter((task) => task.column === column).map((task) => (
              <Card key={`${task.id}`} task={task} />
            ))}
          </section>
        ))}
      </div>
      <Pointers transport={transport} />
    </main>
  );
}

function Card({ task }: { task: Task }) {
  const query = useLiveClient().query(list, {});
  /** Shows at once what a command will make of the tasks. */
  const expecting = (edit: (tasks: Task[]) => Task[]) => ({
    optimistic: (store: { get(q: typeof query): ListReply | undefined; set(q: typeof query, data: ListReply): void }) => {
      const before = store.get(query);
      if (before) store.set(query, { ...before, tasks: edit(before.tasks) });
    },
  });
  const client = useLiveClient();
  const moving = useMutation(change);
  const to = (column: Column) => {
    const moved = { ...task, column };
    const edit = expecting((tasks) => tasks.map((one) => (one.id === task.id ? moved : one)));
    void client.mutate(change, moved, edit).catch(() => moving.mutate(moved));
  };
  const drop = () => {
    void client.mutate(remove, { id: task.id }, expecting((tasks) => tasks.filter(({ id }) => id !== task.id)));
  };
  return (
    <article>
      <p>{task.title}</p>
      {task.column > Column.TODO && <button aria-label={`Back: ${task.title}`} onClick={() => to(task.column - 1)}>◀</button>}
      {task.column < Column.DONE && <button aria-label={`On: ${task.title}`} onClick={() => to(task.column + 1)}>▶</button>}
      <button aria-label={`Remove: ${task.title}`} onClick={drop}>✕</button>
    </article>
  );
}

function Add({ offline }: { offline: Offline }) {
  const [title, setTitle] = useState("");
  const [said, setSaid] = useState("");
  const submit = async (event: React.FormEvent) => {
    event.preventDefault();
    setTitle("");
    setSaid("");
    // Without a connection it waits, over reloads, and is added once: sent again it is the same task.
    const id = BigInt(1 + Math.floor(Math.random() * 2 ** 52));
    await offline.mutate(Board.method.add, { id, title }).catch((error) => setSaid(error.rawMessage));
  };
  return (
    <form onSubmit={submit}>
      <input aria-label="Title" value={title} onChange={(event) => setTitle(event.target.value)} />
      <button>Add</button>
      <span role="status">{said}</span>
    </form>
  );
}

function Meddle({ transport }: { transport: LiveTransport }) {
  const meddle = () => createClient(Board, transport).meddle({}).catch(() => {});
  return <button onClick={meddle}>Change the database behind its back</button>;
}

function Connection({ offline, isStale }: { offline: Offline; isStale: boolean }) {
  const { status, retryAt } = useConnectionState();
  const waiting = useSyncExternalStore(offline.outbox.subscribe, offline.outbox.getSnapshot).length;
  const state = status === "open" && !isStale ? "current" : retryAt ? "offline, trying again" : status;
  return <p className="connection" role="status">{state}{waiting > 0 && `, ${waiting} waiting to be sent`}</p>;
}
