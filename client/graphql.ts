/** The text of an operation, with the types of what goes in and comes out. */
export interface Operation<Data, Variables> {
  toString(): string
  __apiType?: (variables: Variables) => Data
}

const fragments = new Map<string, string>()

/** An operation or fragment, as it stands. Its types are generated from the schema, which checks it too (`npm run codegen`). */
export function graphql<Data = never, Variables = never>(source: string): Operation<Data, Variables> {
  const name = /^\s*fragment (\w+)/.exec(source)?.[1]
  if (name !== undefined) fragments.set(name, source)
  return source
}

/** An operation's text, with every fragment that it uses, directly or by another. */
export function textOf(operation: { toString(): string }): string {
  const used = new Map<string, string>()
  const visit = (text: string) => {
    for (const [, name = ''] of text.matchAll(/\.\.\.\s*(\w+)/g)) {
      const fragment = fragments.get(name)
      if (fragment === undefined || used.has(name)) continue
      used.set(name, fragment)
      visit(fragment)
    }
  }
  const text = operation.toString()
  visit(text)
  return [text, ...used.values()].join('\n')
}
