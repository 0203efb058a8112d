/** Prepares an iteration; where that fails, nothing of it stays. */
export async function standing<T>(iteration: AsyncIterator<unknown>, prepare: () => Promise<T>): Promise<T> {
  try {
    return await prepare()
  } catch (error) {
    await iteration.return?.()
    throw error
  }
}
