import type { Viewer } from '../../access/viewer.ts'

/**
 * A viewer by which one can tell whether an answer depends on more of it than its scope: whatever is authorised or answered for
 * a viewer asks for its id, its token or its grants. `onAsked` is called at the first of these. It sees what is read, and not
 * who compares viewers by identity: see test/shape.test.ts.
 */
export function probeOf(viewer: Viewer, onAsked: () => void): Viewer {
  let asked = false
  const note = () => {
    if (asked) return
    asked = true
    onAsked()
  }
  return new Proxy(viewer, {
    get(target, key) {
      if (key !== 'scope') note()
      return Reflect.get(target, key)
    },
    ownKeys(target) {
      note()
      return Reflect.ownKeys(target)
    },
    has(target, key) {
      note()
      return Reflect.has(target, key)
    },
  })
}
