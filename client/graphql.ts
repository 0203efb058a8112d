/** The text of an operation, with the types of its variables and result. */
export interface Operation<Data, Variables> {
  toString(): string
  __apiType?: (variables: Variables) => Data
}

const fragments = new Map<string, string>()

/** Declares an operation or fragment. `npm run codegen` checks it against the schema and generates its types. */
export function graphql<Data = never, Variables = never>(source: string): Operation<Data, Variables> {
  const name = /^\s*fragment (\w+)/.exec(source)?.[1]
  if (name !== undefined) fragments.set(name, source)
  return source
}

/** Returns the text of an operation with all fragments that it uses, directly or indirectly. */
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
