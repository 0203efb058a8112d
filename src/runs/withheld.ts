/** The amount of a space's content that was withheld from a step. */
export interface Withheld {
  spaceId: string
  memories: number
  goals: number
  plans: number
  cycles: number
}
