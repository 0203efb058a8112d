// Optimization: detects whether viewers can share one answer. To remove this stage, let answers.ts execute the
// operation for each viewer of an event. Gain: 2.6 × less CPU per event in a group of 1,000 subscribers
// (docs/decisions/delivery-stages.md). The limit in test/delivery/shared-work.test.ts needs this stage: the server
// looks up an event once for all subscribers with the same view.
import type { Viewer } from '../access/viewer.ts'

/**
 * Returns a proxy of a viewer that detects whether an answer depends on more than the viewer's scope and role.
 * Authorization and per-viewer fields read the id, the token or the grants, and `onRead` is called at the first
 * such read. The proxy detects property reads, but not comparisons of viewers by identity, which
 * test/delivery/viewer-probe.test.ts forbids.
 */
export function probeOf(viewer: Viewer, onRead: () => void): Viewer {
  let isRead = false
  const noteRead = () => {
    if (isRead) return
    isRead = true
    onRead()
  }
  return new Proxy(viewer, {
    get(target, key) {
      if (key !== 'scope' && key !== 'role') noteRead()
      return Reflect.get(target, key)
    },
    ownKeys(target) {
      noteRead()
      return Reflect.ownKeys(target)
    },
    has(target, key) {
      noteRead()
      return Reflect.has(target, key)
    },
  })
}
