import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { globSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { describeReplay, replay } from '../../src/replay/replay.ts'

const ROOT = path.resolve(import.meta.dirname, '../..')
const RECORDINGS = globSync('test/recordings/*/*.jsonl', { cwd: ROOT }).toSorted()

test('this release has recordings', () => {
  const { version } = JSON.parse(readFileSync(path.join(ROOT, 'package.json'), 'utf8')) as { version: string }
  expect(RECORDINGS.filter((file) => file.startsWith(`test/recordings/${version}/`)).length).toBeGreaterThan(0)
})

test.each(RECORDINGS)('%s of an earlier release, or of this one, replays to an equal log', async (file) => {
  const whole = path.join(ROOT, file)
  const hash = () => createHash('sha256').update(readFileSync(whole)).digest('hex')
  const before = hash()
  const replayed = await replay(whole)
  expect(replayed.isEqual, describeReplay(file, replayed)).toBe(true)
  expect(hash()).toBe(before)
})

test('the command’s exit code says whether the files are equal or unusable', async () => {
  const run = (...files: string[]) =>
    promisify(execFile)(process.execPath, ['bin/parley.cjs', 'replay', ...files], { cwd: ROOT }).then(
      ({ stdout }) => ({ code: 0, stdout, stderr: '' }),
      ({ code, stdout, stderr }: { code: number; stdout: string; stderr: string }) => ({ code, stdout, stderr }),
    )
  const [first = ''] = RECORDINGS
  expect(await run(first)).toMatchObject({ code: 0, stdout: expect.stringContaining('equal') })
  expect(await run(first, 'package.json')).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('not a Parley recording'),
  })
})
