// Who looks: the code in the address becomes a bearer token, which this tab and its siblings keep until they close.

const KEY = "tidewire-console";

/** @typedef {{ bearer: string, act: boolean }} Session */

/** @type {Session | null} */
let session = null;
/** @type {Set<() => void>} */
const listeners = new Set();
const channel = new BroadcastChannel(KEY);

channel.onmessage = ({ data }) => {
  if (data === "who" && session) channel.postMessage(session);
  else if (data?.bearer && !session) keep({ bearer: String(data.bearer), act: Boolean(data.act) });
};

/** @param {Session | null} next */
function keep(next) {
  session = next;
  if (next) sessionStorage.setItem(KEY, JSON.stringify(next));
  else sessionStorage.removeItem(KEY);
  for (const listener of listeners) listener();
}

/** @returns {Session | null} */
export const current = () => session;

/** @param {() => void} listener */
export function onChange(listener) {
  listeners.add(listener);
  return () => void listeners.delete(listener);
}

/** Ends the session of this tab, when the server does not know it any more. */
export const forget = () => keep(null);

const codeInAddress = () => /^#([0-9a-f]{32})$/.exec(location.hash)?.[1];

/** Whether the address has a code, as `tidewire console` prints it. */
export const hasCode = () => Boolean(codeInAddress());

/**
 * Takes the code out of the address and exchanges it; without one, takes what this tab or a sibling has.
 * @returns {Promise<string>} why there is no session; empty where there is one
 */
export async function begin() {
  const code = codeInAddress();
  if (code) {
    history.replaceState(null, "", location.pathname);
    return signIn(code);
  }
  try {
    const kept = JSON.parse(sessionStorage.getItem(KEY) ?? "null");
    if (kept?.bearer) {
      session = { bearer: String(kept.bearer), act: Boolean(kept.act) };
      return "";
    }
  } catch { /* What is kept is no session. */ }
  channel.postMessage("who");
  // Siblings answer at once or not at all.
  await new Promise((done) => setTimeout(done, 150));
  return session ? "" : "none";
}

/**
 * @param {string} code
 * @returns {Promise<string>}
 */
export async function signIn(code) {
  try {
    const response = await fetch("/console/sign-in", {
      method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ code }),
    });
    const body = await response.json().catch(() => ({}));
    if (!response.ok) return body.message || `the server refuses (${response.status})`;
    keep({ bearer: body.bearer, act: body.act });
    return "";
  } catch {
    return "the server does not answer";
  }
}
