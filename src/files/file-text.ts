import { open } from 'node:fs/promises'
import path from 'node:path'
import { Worker } from 'node:worker_threads'
import { textOfBytes } from './media-type.ts'
import type { PdfQuestion } from './pdf-thread.ts'

/** How much of a file's text is stored, in UTF-16 units; agents and the search see no more. */
export const LONGEST_FILE_TEXT = 200_000
/** Enough bytes for a text of this length. */
const TEXT_BYTES = 4 * LONGEST_FILE_TEXT
const MOST_PAGES = 200
const LONGEST_PARSING_MS = 15_000
/** The memory limit of the heap of the thread that parses a PDF file. */
const THREAD_MB = 256
/**
 * The memory limit of the buffers outside of that heap, into which the parser decompresses streams: 20 KB of a file that is
 * compressed twice can become gigabytes.
 */
const BUFFERS_BYTES = 192 * 1024 * 1024
const CHECK_MS = 25
const MOST_THREADS = 2
const MOST_WAITING = 50

let threads = 0
const waiting: (() => void)[] = []

/**
 * Returns the beginning of the text of a plain-text or PDF file. Null if it has none, cannot be parsed in time,
 * or too many files wait.
 */
export async function textOfFile(at: string, mediaType: string): Promise<string | null> {
  const text = mediaType === 'text/plain' ? await plainText(at) : await pdfText(at, mediaType)
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

async function pdfText(at: string, mediaType: string): Promise<string | null> {
  if (mediaType !== 'application/pdf' || waiting.length >= MOST_WAITING) return null
  if (threads >= MOST_THREADS) await new Promise<void>((resolve) => waiting.push(resolve))
  threads += 1
  try {
    return await inThread({ path: at, mostPages: MOST_PAGES, mostCharacters: LONGEST_FILE_TEXT })
  } finally {
    threads -= 1
    waiting.shift()?.()
  }
}

function inThread(question: PdfQuestion): Promise<string | null> {
  const worker = new Worker(new URL(`./pdf-thread${path.extname(import.meta.url)}`, import.meta.url), {
    workerData: question,
    execArgv: ['--disable-warning=ExperimentalWarning'],
    resourceLimits: { maxOldGenerationSizeMb: THREAD_MB, maxYoungGenerationSizeMb: 32 },
    // The library warns about fonts and damaged files.
    stdout: true,
    stderr: true,
  })
  return new Promise<string | null>((resolve) => {
    const timer = setTimeout(() => resolve(null), LONGEST_PARSING_MS)
    const check = setInterval(async () => {
      // The thread may have ended in the meantime.
      const { external_memory: bytes } = await worker.getHeapStatistics().catch(() => ({ external_memory: 0 }))
      if (bytes > BUFFERS_BYTES) resolve(null)
    }, CHECK_MS)
    worker.once('message', (text: string) => resolve(text))
    worker.once('error', () => resolve(null))
    worker.once('exit', () => {
      clearTimeout(timer)
      clearInterval(check)
      resolve(null)
    })
  }).finally(() => worker.terminate())
}
