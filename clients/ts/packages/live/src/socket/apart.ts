/** What a listener throws is its own, and stops nobody else. */
export function apart(act: () => void): void {
  try {
    act();
  } catch (error) {
    queueMicrotask(() => {
      throw error;
    });
  }
}
