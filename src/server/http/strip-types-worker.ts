// A worker thread of console.ts: gives each source back without its types, and ends. Node calls the function experimental in
// the log; a thread can be told not to, without silencing the process.
import { stripTypeScriptTypes } from 'node:module'
import { parentPort, workerData } from 'node:worker_threads'

const sources = workerData as Record<string, string>
const scripts = Object.entries(sources).map(([name, source]) => [name, stripTypeScriptTypes(source)])
parentPort?.postMessage(Object.fromEntries(scripts))
