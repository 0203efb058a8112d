import { builder } from './builder.ts'
import { Run } from './refs.ts'

/** Pages of runs, whatever they are the runs of. */
export const RunEdge = builder.edgeObject({ type: Run, name: 'RunEdge' })
export const RunConnection = builder.connectionObject({ type: Run, name: 'RunConnection' }, RunEdge)
