import type { Observable } from '../../client/observable.ts'

/** Waits until a live state meets a condition. The live object stays active until then. */
export function when<State>(live: Observable<State>, condition: (state: State) => boolean): Promise<State> {
  return new Promise((resolve) => {
    const look = () => {
      if (!condition(live.getState())) return
      resolve(live.getState())
      queueMicrotask(() => stop())
    }
    const stop = live.subscribe(look)
    look()
  })
}
