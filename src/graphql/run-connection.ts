import { builder } from './builder.ts'
import { Run } from './refs.ts'

/** The connection type of all fields that return runs. */
export const RunEdge = builder.edgeObject({ type: Run, name: 'RunEdge' })
export const RunConnection = builder.connectionObject({ type: Run, name: 'RunConnection' }, RunEdge)
