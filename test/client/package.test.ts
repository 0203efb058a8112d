import { execFile } from 'node:child_process'
import { rm } from 'node:fs/promises'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { compiled, projectWithClient } from '../support/client-package.ts'

const run = promisify(execFile)

const CONSUMER = `
import { createConnection, liveRun, liveSpace, liveViewer, payloadOf, type SpaceState } from 'parley-client'
import { useRun, useSpace, useViewer } from 'parley-client/react'

const connection = createConnection({ url: 'http://localhost:1', token: 'none' })
const space = liveSpace(connection, { spaceId: 'spc_1' })
const state: SpaceState = space.getState()
// @ts-expect-error a message has no such field: types are of the schema, not any
const wrong = state.messages[0]?.nothing
export const used = [liveRun, liveViewer, payloadOf, useRun, useSpace, useViewer, wrong, state.messages[0]?.sender.kind]
`

describe('the client as a package', () => {
  let folder: string

  beforeAll(async () => {
    // The packages that npm would install for the client: its one dependency with the peer of that package, and React, which a
    // project already has.
    folder = (await projectWithClient(['graphql-ws', 'graphql', 'react', '@types'])).folder
  })
  afterAll(() => rm(folder, { recursive: true, force: true }))

  test('can be imported in an empty project without React and the AI SDK', async () => {
    const script = `
      import { createConnection, liveSpace } from 'parley-client'
      const space = liveSpace(createConnection({ url: 'http://localhost:1', token: 'x' }), { spaceId: 'spc_1' })
      console.log(space.getState().status)
      const { createChatTransport } = await import('parley-client/ai')
      const { useSpace } = await import('parley-client/react')
      console.log(typeof createChatTransport, typeof useSpace)`
    const { stdout } = await run(process.execPath, ['--input-type=module', '-e', script], { cwd: folder })
    expect(stdout).toBe('loading\nfunction function\n')
  })

  test('has complete type declarations, including those of the schema', async () => {
    expect(await compiled(folder, { 'consumer.ts': CONSUMER })).toBe('')
  })
})
