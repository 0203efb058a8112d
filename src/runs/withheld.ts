/** How much of a space's content a step was not given. */
export interface Withheld {
  spaceId: string
  memories: number
  goals: number
  plans: number
  cycles: number
}
