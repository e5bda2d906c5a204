/** In development data are frozen: views share them, and a change would show in all. */
declare const process: { env: Record<string, string | undefined> } | undefined;

export function frozen<T>(value: T): T {
  // Written where it is used: so bundlers drop what follows from it.
  if (typeof process !== "undefined" && process.env.NODE_ENV !== "production") freeze(value);
  return value;
}

function freeze(value: unknown): void {
  if (typeof value !== "object" || value === null || ArrayBuffer.isView(value) || Object.isFrozen(value)) return;
  Object.freeze(value);
  for (const inner of Object.values(value)) freeze(inner);
}
