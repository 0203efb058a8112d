import { open } from 'node:fs/promises'
import path from 'node:path'
import { Worker } from 'node:worker_threads'
import { sleep } from '../lib/async.ts'
import { textOfBytes } from './media-type.ts'
import type { PdfQuestion } from './pdf-thread.ts'

/** How much of a file's text is stored, in UTF-16 units. The rest is not available to agents and the search. */
export const LONGEST_FILE_TEXT = 200_000
/** A text of this length has at most this many bytes. */
const TEXT_BYTES = 4 * LONGEST_FILE_TEXT
const MOST_PAGES = 200
const LONGEST_PARSING_MS = 15_000
/** The memory limit of the heap of the thread that parses a PDF file. */
const THREAD_MB = 256
/**
 * The memory limit of the buffers outside of that heap, into which the parser decompresses streams. 20 KB of
 * twice-compressed data can become gigabytes.
 */
const BUFFERS_BYTES = 192 * 1024 * 1024
const CHECK_MS = 25
/** How often the parsing of a file in the background checks for an idle thread. */
const IDLE_CHECK_MS = 100
const MOST_THREADS = 2
const MOST_WAITING = 50

let threads = 0
/** The uploaded files that wait for a thread, oldest first. Each function lets one of them continue. */
const waiting: (() => void)[] = []

/**
 * Returns the beginning of the text of a plain-text or PDF file. Returns null if it has none, if it cannot be parsed in
 * time, or if too many files are waiting. If `background` is given, uploads are parsed first, and aborting that signal
 * ends the parsing.
 */
export async function textOfFile(at: string, mediaType: string, background?: AbortSignal): Promise<string | null> {
  const text = mediaType === 'text/plain' ? await plainText(at) : await pdfText(at, mediaType, background)
  const storable = text?.replaceAll('\0', '').slice(0, LONGEST_FILE_TEXT).toWellFormed() ?? ''
  return storable.trim() === '' ? null : storable
}

async function plainText(at: string): Promise<string | null> {
  const file = await open(at, 'r')
  try {
    const { buffer, bytesRead } = await file.read(Buffer.alloc(TEXT_BYTES), 0, TEXT_BYTES, 0)
    return textOfBytes(buffer.subarray(0, bytesRead))
  } finally {
    await file.close()
  }
}

async function pdfText(at: string, mediaType: string, background?: AbortSignal): Promise<string | null> {
  if (mediaType !== 'application/pdf') return null
  if (background === undefined ? !(await waitForThread()) : !(await takeIdleThread(background))) return null
  try {
    return await inThread({ path: at, mostPages: MOST_PAGES, mostCharacters: LONGEST_FILE_TEXT }, background)
  } finally {
    const next = waiting.shift()
    // The next file takes over this file's place.
    if (next === undefined) threads -= 1
    else next()
  }
}

/** Takes a place for a thread, in the order of the calls. Returns false if too many files are waiting. */
async function waitForThread(): Promise<boolean> {
  if (threads < MOST_THREADS) {
    threads += 1
    return true
  }
  if (waiting.length >= MOST_WAITING) return false
  await new Promise<void>((resolve) => waiting.push(resolve))
  return true
}

/** Takes a place if another place stays free for uploads. Returns false if the signal has aborted. */
async function takeIdleThread(signal: AbortSignal): Promise<boolean> {
  while (!signal.aborted && threads >= MOST_THREADS - 1) await sleep(IDLE_CHECK_MS, signal)
  if (signal.aborted) return false
  threads += 1
  return true
}

function inThread(question: PdfQuestion, signal?: AbortSignal): Promise<string | null> {
  const rssBefore = process.memoryUsage.rss()
  const worker = new Worker(new URL(`./pdf-thread${path.extname(import.meta.url)}`, import.meta.url), {
    workerData: question,
    execArgv: ['--disable-warning=ExperimentalWarning'],
    resourceLimits: { maxOldGenerationSizeMb: THREAD_MB, maxYoungGenerationSizeMb: 32 },
    // These streams are not shown, because the library prints warnings about fonts and damaged files.
    stdout: true,
    stderr: true,
  })
  return new Promise<string | null>((resolve) => {
    const stop = () => resolve(null)
    const timer = setTimeout(stop, LONGEST_PARSING_MS)
    signal?.addEventListener('abort', stop, { once: true })
    if (signal?.aborted) stop()
    let isChecking = false
    const check = setInterval(async () => {
      if (isChecking) return
      isChecking = true
      if (await exceedsMemory(worker, rssBefore)) stop()
      isChecking = false
    }, CHECK_MS)
    worker.once('message', (text: string) => resolve(text))
    worker.once('error', () => resolve(null))
    worker.once('exit', () => {
      clearTimeout(timer)
      clearInterval(check)
      signal?.removeEventListener('abort', stop)
      stop()
    })
  }).finally(() => worker.terminate())
}

/**
 * Whether the thread has allocated too much. The thread's own timers do not fire while it decompresses, so the main
 * thread measures its memory.
 */
async function exceedsMemory(worker: Worker, rssBefore: number): Promise<boolean> {
  try {
    // Node has this method since 22.16 and 24.0. In older versions, the growth of the whole process is measured, which
    // can include other work.
    if (typeof worker.getHeapStatistics !== 'function')
      return process.memoryUsage.rss() - rssBefore > BUFFERS_BYTES + THREAD_MB * 1024 * 1024
    return (await worker.getHeapStatistics()).external_memory > BUFFERS_BYTES
  } catch {
    // The thread has already ended.
    return false
  }
}
