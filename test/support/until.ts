/** What is asked takes from the processor what is waited for needs: so pauses grow by a quarter, up to this. */
const LONGEST_PAUSE_MS = 20

type Truthy<T> = Exclude<T, null | undefined | false | 0 | ''>

/**
 * Waits for a fact: asks again until the answer is truthy, and gives it back. An answer that throws counts as not yet.
 * @throws after `timeoutMs`, with the question and the last answer, so that a test fails by saying what never became true.
 */
export async function until<T>(
  question: string,
  ask: () => T | Promise<T>,
  { timeoutMs = 60_000, intervalMs = 5 }: { timeoutMs?: number; intervalMs?: number } = {},
): Promise<Truthy<T>> {
  const deadline = Date.now() + timeoutMs
  for (let pauseMs = intervalMs; ; pauseMs = Math.max(intervalMs, Math.min(pauseMs * 1.25, LONGEST_PAUSE_MS))) {
    let last: unknown
    try {
      const answer = await ask()
      if (answer) return answer as Truthy<T>
      last = answer
    } catch (error) {
      last = error
    }
    if (Date.now() > deadline) throw new Error(`it never became true: ${question} (last: ${String(last)})`)
    await new Promise((resolve) => setTimeout(resolve, pauseMs))
  }
}
