/** What an erased human is called from then on. */
export const ERASED = 'Erased'

/** A human that is being erased, by the name that it had. */
export interface ErasedHuman {
  id: string
  name: string
  /** Its messages are emptied too: what quotes them is. */
  messages: boolean
}
