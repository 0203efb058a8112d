import { graphql as register } from '../client/graphql.ts'
import type { graphql as generated } from '../generated/gql.ts'

/** Declares an operation or fragment of the console. `npm run codegen` generates its types from the schema. */
export const graphql = register as unknown as typeof generated
