import SchemaBuilder from '@pothos/core'
import ComplexityPlugin from '@pothos/plugin-complexity'
import ErrorsPlugin from '@pothos/plugin-errors'
import RelayPlugin from '@pothos/plugin-relay'
import type { Json } from '../lib/json.ts'
import type { Context } from './context.ts'

/** What the API's own scalars are on this side of it. */
type Scalars = {
  ID: { Input: string; Output: string }
  DateTime: { Input: Date; Output: Date }
  JSON: { Input: NonNullable<Json>; Output: unknown }
  StreamCursor: { Input: string; Output: string }
}

export type SchemaTypes = {
  Context: Context
  Scalars: Scalars
  DefaultFieldNullability: false
  DefaultEdgesNullability: false
  DefaultNodeNullability: false
}

/**
 * What every file of this folder adds its types to; it defines none itself. Of the relay plugin only connections are used:
 * ids are ours and go out as they are (see node.ts). An expected failure of a mutation is a member of its result union.
 */
export const builder = new SchemaBuilder<SchemaTypes>({
  plugins: [ErrorsPlugin, RelayPlugin, ComplexityPlugin],
  defaultFieldNullability: false,
  relay: {
    cursorType: 'String',
    edgesFieldOptions: { nullable: false, complexity: { field: 0, multiplier: 1 } },
    nodeFieldOptions: { nullable: false, complexity: 0 },
    pageInfoFieldOptions: { complexity: 0 },
  },
  errors: {
    directResult: true,
    defaultUnionOptions: { name: ({ fieldName }) => `${fieldName[0]?.toUpperCase()}${fieldName.slice(1)}Result` },
  },
  // Checked before execution, for every transport alike: see server/http/complexity.ts.
  complexity: { disabled: true, defaultComplexity: 1, defaultListMultiplier: 10 },
})

builder.queryType()
builder.mutationType()
builder.subscriptionType()
