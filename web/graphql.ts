import type { graphql as generated } from '../generated/gql.ts'

const fragments = new Map<string, string>()

/**
 * An operation or fragment, as it stands. Its types are generated from the schema, which checks it too (`npm run codegen`);
 * nothing that is generated is loaded by browsers.
 */
export const graphql = ((source: string) => {
  const name = /^\s*fragment (\w+)/.exec(source)?.[1]
  if (name !== undefined) fragments.set(name, source)
  return source
}) as unknown as typeof generated

/** An operation as it is sent: with the fragments that it names, and those that they name. */
export function textOf(operation: { toString(): string }): string {
  const texts = [operation.toString()]
  const named = new Set<string>()
  for (const text of texts) {
    for (const [, name = ''] of text.matchAll(/\.\.\.\s*(?!on\b)(\w+)/g)) {
      const fragment = fragments.get(name)
      if (fragment !== undefined && !named.has(name)) texts.push(fragment)
      named.add(name)
    }
  }
  return texts.join('\n')
}
