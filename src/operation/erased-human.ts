/** The name of erased humans. */
export const ERASED = 'Erased'

/** A human whose erasure is in progress, with the former name. */
export interface ErasedHuman {
  id: string
  name: string
  /** Whether the human's messages are erased too, with their quotations. */
  messages: boolean
}
