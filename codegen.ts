import { existsSync } from 'node:fs'
import type { CodegenConfig } from '@graphql-codegen/cli'

// Types of every GraphQL operation that the console, tests, benchmarks and scripts send, from the committed schema: written to
// `generated/` by `npm run generate`, imported as `graphql` from there, checked by `npm run check:types`.
const config: CodegenConfig = {
  schema: existsSync('schema.graphql') ? 'schema.graphql' : 'test/contract/schema.graphql',
  documents: ['{bench,scripts,test,web}/**/*.ts'],
  ignoreNoDocuments: true,
  // Only what goes through `graphql(…)`: a test may hold operations that are wrong on purpose.
  pluckConfig: { modules: [], globalGqlIdentifierName: ['graphql'], gqlMagicComment: 'never' },
  silent: true,
  generates: {
    'generated/': {
      preset: 'client',
      presetConfig: { fragmentMasking: false },
      config: {
        documentMode: 'string',
        importExtension: '.ts',
        useTypeImports: true,
        scalars: { DateTime: 'string', JSON: 'unknown', StreamCursor: 'string' },
      },
    },
  },
}

export default config
