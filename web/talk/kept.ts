// Stores drafts and unsent messages in this browser, by person, so that closing the tab loses nothing.
const PREFIX = 'parley.kept.'

/** @param threadId the first message of the thread */
export const draftKey = (humanId: string, spaceId: string, threadId?: string) =>
  [`${PREFIX}draft.${humanId}.${spaceId}`, threadId].filter(Boolean).join('.')
export const unsentKey = (humanId: string) => `${PREFIX}unsent.${humanId}`

/** The browser's storage can be full, or turned off. */
export function keep(key: string, text: string | null): void {
  try {
    if (text === null) localStorage.removeItem(key)
    else localStorage.setItem(key, text)
  } catch {}
}

export function keptAt(key: string): string | null {
  try {
    return localStorage.getItem(key)
  } catch {
    return null
  }
}

/** Called at sign-out. */
export function forgetKept(): void {
  try {
    for (const key of Object.keys(localStorage)) if (key.startsWith(PREFIX)) localStorage.removeItem(key)
  } catch {}
}
