import { existsSync } from 'node:fs'
import type { CodegenConfig } from '@graphql-codegen/cli'

// Types of every GraphQL operation that clients, the console, tests, benchmarks and scripts send, from the committed schema: written
// to `generated/` by `npm run generate`, imported as `graphql` from there, checked by `npm run check:types`. Those of client/ lie
// in it, since it is a package of its own.
const config = {
  documentMode: 'string',
  importExtension: '.ts',
  useTypeImports: true,
  scalars: { DateTime: 'string', JSON: 'unknown', StreamCursor: 'string' },
} as const

const codegen: CodegenConfig = {
  schema: existsSync('schema.graphql') ? 'schema.graphql' : 'test/contract/schema.graphql',
  ignoreNoDocuments: true,
  // Only what goes through `graphql(…)`: a test may hold operations that are wrong on purpose.
  pluckConfig: { modules: [], globalGqlIdentifierName: ['graphql'], gqlMagicComment: 'never' },
  silent: true,
  generates: {
    'generated/': {
      preset: 'client',
      presetConfig: { fragmentMasking: false },
      config,
      documents: ['{bench,scripts,test}/**/*.ts', 'web/**/*.{ts,tsx}', '!web/dist/**'],
    },
    'client/generated/graphql.ts': { plugins: ['typescript-operations'], config, documents: ['client/*.ts'] },
  },
}

export default codegen
