/**
 * The maximum pause between two polls. Pauses grow with the duration of the wait and of a poll, because polling takes processor
 * time from the awaited work.
 */
const LONGEST_PAUSE_MS = 100

type Truthy<T> = Exclude<T, null | undefined | false | 0 | ''>

/**
 * Waits for a condition: polls until the result is truthy, and returns it. A poll that throws counts as not yet true. @throws
 * after `timeoutMs`, with the description and the last result, so that a failing test says which condition is missing
 */
export async function until<T>(
  question: string,
  ask: () => T | Promise<T>,
  { timeoutMs = 60_000, intervalMs = 5 }: { timeoutMs?: number; intervalMs?: number } = {},
): Promise<Truthy<T>> {
  const beginning = performance.now()
  for (;;) {
    const askedAt = performance.now()
    let last: unknown
    try {
      const answer = await ask()
      if (answer) return answer as Truthy<T>
      last = answer
    } catch (error) {
      last = error
    }
    const now = performance.now()
    const waitedMs = now - beginning
    if (waitedMs > timeoutMs) throw new Error(`it never became true: ${question} (last: ${String(last)})`)
    const pauseMs = Math.max(intervalMs, Math.min(Math.max(waitedMs / 3, 3 * (now - askedAt)), LONGEST_PAUSE_MS))
    await new Promise((resolve) => setTimeout(resolve, pauseMs))
  }
}
