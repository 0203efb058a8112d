/** How much of what came from a space a step was not shown. */
export interface Withheld {
  spaceId: string
  memories: number
  goals: number
  plans: number
  cycles: number
}
