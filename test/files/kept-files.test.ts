import { describe, expect, test } from 'vitest'
import { createKeepFiles } from '../../src/flows/keep-files.ts'
import type { CreatedFile } from '../../src/flows/upload-file.ts'
import type { NewFile } from '../../src/stores/file-store.ts'

const CALL = { id: `tcl_${'1'.repeat(32)}`, agentId: 'agt_1' }
const RETURNED = ['a.pdf', 'b.pdf'].map((name) => ({ name, content: Buffer.from(name) }))
const logger = { warn() {} } as never

function keeping(createBy: (agentId: string, file: CreatedFile) => Promise<NewFile>) {
  return createKeepFiles({ logger }, { uploads: { createBy } }).keepFiles
}

const stored = (_: string, { id, name }: CreatedFile) =>
  Promise.resolve({ id, name, mediaType: 'application/pdf' } as NewFile)

describe('storing the files of a result', () => {
  test('an unexpected error is reported in a note about that file, without details', async () => {
    const keepFiles = keeping((agentId, file) =>
      file.name === 'a.pdf' ? Promise.reject(new TypeError('secret detail')) : stored(agentId, file),
    )
    const { entries, rows } = await keepFiles(CALL, RETURNED, new AbortController().signal)
    expect(entries).toMatchObject([
      { note: '[The file "a.pdf" was not stored: an unexpected error occurred.]' },
      { name: 'b.pdf' },
    ])
    expect(rows.map(({ name }) => name)).toEqual(['b.pdf'])
  })

  test('a stopped run does not wait for a file that never ends', async () => {
    const stop = new AbortController()
    const keepFiles = keeping(() => {
      stop.abort(new Error('stopped'))
      return new Promise(() => {})
    })
    await expect(keepFiles(CALL, RETURNED, stop.signal)).rejects.toThrow('stopped')
  })
})
