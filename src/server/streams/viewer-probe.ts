import type { Viewer } from '../../access/viewer.ts'

/**
 * Returns a viewer that detects whether an answer depends on more than the viewer's scope: authorisation and
 * per-viewer fields read the id, the token or the grants. `onAsked` is called at the first such read. The
 * probe detects property reads, but not comparisons of viewers by identity: see test/shape.test.ts.
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
