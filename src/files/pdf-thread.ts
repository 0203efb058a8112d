// The worker thread of file-text.ts. It parses an untrusted document, and can be terminated while it does so.
import { readFile } from 'node:fs/promises'
import { parentPort, workerData } from 'node:worker_threads'
import { getDocumentProxy } from 'unpdf'

/** A PDF file, and how much of its text to return. */
export interface PdfQuestion {
  path: string
  mostPages: number
  mostCharacters: number
}

async function textOf({ path, mostPages, mostCharacters }: PdfQuestion): Promise<string> {
  const document = await getDocumentProxy(new Uint8Array(await readFile(path)))
  const pages: string[] = []
  let length = 0
  for (let number = 1; number <= Math.min(document.numPages, mostPages) && length < mostCharacters; number += 1) {
    const page = await document.getPage(number)
    const { items } = await page.getTextContent()
    const text = items
      .map((item) => ('str' in item ? item.str + (item.hasEOL ? '\n' : '') : ''))
      .join('')
      .slice(0, mostCharacters - length)
    page.cleanup()
    length += text.length
    pages.push(text)
  }
  return pages.join('\n\n')
}

parentPort?.postMessage(await textOf(workerData as PdfQuestion))
