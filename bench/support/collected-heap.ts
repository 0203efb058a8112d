import { once } from 'node:events'
import { WebSocket } from 'ws'
import { until } from '../../test/support/until.ts'

const INSPECTOR = 'http://127.0.0.1:9229/json'

/** Has a process of node's collect its garbage, by its inspector: what is in use then is held by something. */
export async function collectGarbageOf(pid: number): Promise<void> {
  process.kill(pid, 'SIGUSR1')
  const url = await until('its inspector listens', async () => {
    const [target] = (await (await fetch(INSPECTOR)).json()) as { webSocketDebuggerUrl: string }[]
    return target?.webSocketDebuggerUrl
  })
  const inspector = new WebSocket(url)
  await once(inspector, 'open')
  for (let id = 1; id <= 3; id++) {
    inspector.send(JSON.stringify({ id, method: 'HeapProfiler.collectGarbage' }))
    await once(inspector, 'message')
  }
  inspector.close()
}
