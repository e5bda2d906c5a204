/** What a page hears of its life: hidden and shown, frozen and thawed, online, closed. */

export interface PageEvents {
  /** It may not have run, or the network may be back. */
  wake(): void;
  /** The network may be gone. */
  doubt(): void;
  /** It is closed and will not come back. */
  leave(): void;
}

/** Listens to the page, if there is one. Returns what ends that. */
export function listenToPage({ wake, doubt, leave }: PageEvents): () => void {
  const page = globalThis as unknown as Partial<Window & typeof globalThis>;
  const { document } = page;
  if (!page.addEventListener || !document) return () => {};
  const shown = () => document.visibilityState === "visible" && wake();
  // With `persisted` it may come back from the cache of pages, and resumes its session.
  const hidden = (event: Event) => (event as PageTransitionEvent).persisted || leave();
  const all: [EventTarget, string, (event: Event) => unknown][] = [
    [page as EventTarget, "online", wake],
    [page as EventTarget, "offline", doubt],
    [page as EventTarget, "pageshow", (event) => (event as PageTransitionEvent).persisted && wake()],
    [page as EventTarget, "pagehide", hidden],
    [document, "visibilitychange", shown],
    [document, "resume", wake],
  ];
  for (const [target, name, listener] of all) target.addEventListener(name, listener);
  return () => {
    for (const [target, name, listener] of all) target.removeEventListener(name, listener);
  };
}

export function isVisible(): boolean {
  return globalThis.document?.visibilityState !== "hidden";
}
