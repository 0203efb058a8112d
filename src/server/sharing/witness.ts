import type { Viewer } from '../../access/viewer.ts'

/** A viewer of whom one can tell whether an answer depends on more of it than its scope. */
export interface Witness {
  viewer: Viewer
  /** Whether anything but the scope was asked for since the last `forget`. */
  wasAsked(): boolean
  forget(): void
}

/** What is authorised or answered for a viewer asks for its id, its token or its grants; whatever does counts as personal. */
export function witnessOf(viewer: Viewer): Witness {
  let asked = false
  return {
    viewer: new Proxy(viewer, {
      get(target, key) {
        if (key !== 'scope') asked = true
        return Reflect.get(target, key)
      },
      ownKeys(target) {
        asked = true
        return Reflect.ownKeys(target)
      },
      has(target, key) {
        asked = true
        return Reflect.has(target, key)
      },
    }),
    wasAsked: () => asked,
    forget() {
      asked = false
    },
  }
}
