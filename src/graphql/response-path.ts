/**
 * The path of a value in a response, in the form that graphql-js passes to resolvers. The form is a linked list
 * from the value to the root.
 */
export interface ResponsePath {
  readonly prev: ResponsePath | undefined
  readonly key: string | number
}

/** Returns the path including the indexes of list items, such as `space.messages.edges.0.node`. */
export function instancePath(path: ResponsePath): string {
  return keysOf(path).join('.')
}

/** Returns the path without indexes. It is the same for all occurrences of a selection. */
export function selectionPath(path: ResponsePath): string {
  return keysOf(path)
    .filter((key) => typeof key === 'string')
    .join('.')
}

/** Whether a path lies within the edge `index` of a connection. */
export function isWithin(path: ResponsePath, connection: ResponsePath, index: number): boolean {
  for (let at: ResponsePath | undefined = path; at !== undefined; at = at.prev) {
    if (at.key === index && at.prev?.prev === connection) return true
  }
  return false
}

function keysOf(path: ResponsePath): (string | number)[] {
  const keys: (string | number)[] = []
  for (let at: ResponsePath | undefined = path; at !== undefined; at = at.prev) keys.unshift(at.key)
  return keys
}
