import SchemaBuilder from '@pothos/core'
import ComplexityPlugin from '@pothos/plugin-complexity'
import ErrorsPlugin from '@pothos/plugin-errors'
import RelayPlugin from '@pothos/plugin-relay'
import type { Json } from '../lib/json.ts'
import { ACTING_PLUGIN } from './acting-plugin.ts'
import type { Context } from './context.ts'

/** The TypeScript types of the API's custom scalars. */
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
 * The schema builder. Every file of this folder adds its types to it. The Relay plugin is used only for
 * connections, because ids are those of the database (see node.ts). The expected failures of a mutation are members
 * of its result union.
 */
export const builder = new SchemaBuilder<SchemaTypes>({
  plugins: [ErrorsPlugin, RelayPlugin, ComplexityPlugin, ACTING_PLUGIN],
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
  // Complexity is checked before execution, for all transports (see server/http/complexity.ts).
  complexity: { disabled: true, defaultComplexity: 1, defaultListMultiplier: 10 },
})

builder.queryType()
builder.mutationType()
builder.subscriptionType()
