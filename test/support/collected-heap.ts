import { once } from 'node:events'
import { WebSocket } from 'ws'
import { until } from './until.ts'

/** Node's default port. A process that starts with `--inspect-port=N` listens at N instead. */
const INSPECTOR_PORT = 9229

/**
 * Makes a Node process collect its garbage through its inspector, which SIGUSR1 opens. Returns the bytes of the heap that are
 * still in use.
 */
export async function collectGarbageOf(pid: number, inspectorPort = INSPECTOR_PORT): Promise<number> {
  process.kill(pid, 'SIGUSR1')
  const url = await until('its inspector listens', async () => {
    const [target] = (await (await fetch(`http://127.0.0.1:${inspectorPort}/json`)).json()) as {
      webSocketDebuggerUrl: string
    }[]
    return target?.webSocketDebuggerUrl
  })
  const inspector = new WebSocket(url)
  await once(inspector, 'open')
  let id = 0
  async function call(method: string): Promise<{ result: { usedSize?: number } }> {
    id += 1
    inspector.send(JSON.stringify({ id, method }))
    const [data] = await once(inspector, 'message')
    return JSON.parse(String(data))
  }
  for (let times = 0; times < 3; times++) await call('HeapProfiler.collectGarbage')
  const { result } = await call('Runtime.getHeapUsage')
  inspector.close()
  return result.usedSize ?? Number.NaN
}
