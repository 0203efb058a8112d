import { graphql as register } from '../client/graphql.ts'
import type { graphql as generated } from '../generated/gql.ts'

/** An operation or fragment of the console's own. Its types are generated from the schema (`npm run codegen`). */
export const graphql = register as unknown as typeof generated
