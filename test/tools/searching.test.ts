import { Readable } from 'node:stream'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { RULE_STACKS, startApplication, type TestApplication } from '../support/application.ts'
import { steps } from '../support/model-server-script.ts'
import { until } from '../support/until.ts'

describe.each(RULE_STACKS)('search_messages, on the %s stack', (stack) => {
  let parley: TestApplication
  beforeAll(async () => {
    parley = await startApplication({ stack, settings: { PARLEY_DIRECTORY: 'everyone' } })
  })
  afterAll(() => parley?.close())
  beforeEach(() => parley.models.reset())

  /** Returns the result of a search by an agent that Ada asks in the space `asked`. */
  async function found(asked: 'open' | 'secret', input: object) {
    const [ada, bob] = [await parley.human('Ada'), await parley.human('Bob')]
    const agent = await parley.agent('Finder')
    const open = await parley.space(ada, [bob.id, agent.id], { name: 'Open', routing: 'BROADCAST' })
    const secret = await parley.space(ada, [agent.id], { name: 'Secret', confidential: true })
    const foreign = await parley.space(ada, [], { name: 'Foreign' })
    parley.models.script(() => [{ text: 'Read.' }])
    const sent = [
      await parley.send(ada, open.id, 'The heron said OPENCANARY'),
      await parley.send(ada, secret.id, 'The heron said SECRETCANARY'),
    ]
    await parley.send(ada, foreign.id, 'The heron said FOREIGNCANARY')
    for (const [spaceId, word] of [
      [open.id, 'OPENFILE'],
      [secret.id, 'SECRETFILE'],
      [foreign.id, 'FOREIGNFILE'],
    ] as const) {
      const body = Readable.from([Buffer.from(`The egret said ${word}`)])
      const file = await parley.app.domain.files.upload(ada, { name: 'birds.txt', body, bytes: null })
      sent.push(await parley.app.domain.sending.send(ada, { spaceId, text: 'See the file', fileIds: [file.id] }))
    }
    const egrets = { query: 'egret', spaceId: null, senderId: ada.id, hasFile: true, since: null, until: null }
    await until('the texts of files are indexed', async () => {
      const page = await parley.app.domain.search.find(ada, { ...egrets, order: 'NEWEST' }, { size: 3, after: null })
      return page.items.length === 3
    })
    for (const { runs } of sent) for (const { id } of runs) await parley.runWhen(id)
    parley.models.reset()
    parley.models.script(steps([{ toolCall: 'search_messages', input }], [{ text: 'Done.' }]))
    const { runs } = await parley.send(ada, asked === 'open' ? open.id : secret.id, 'Look for it')
    const run = await parley.runWhen(runs[0]?.id ?? '')
    const { messages } = await parley.models.request(({ step }) => step === 1)
    const result = messages
      .filter(({ role }) => role === 'tool')
      .map(({ text }) => text)
      .join()
    return { result, label: run.label, secret }
  }

  test('finds in an open space messages from the agent’s open spaces, and nothing confidential', async () => {
    const { result, label } = await found('open', { query: 'heron' })
    expect(result).toContain('OPENCANARY')
    expect(result).not.toContain('SECRETCANARY')
    expect(result).not.toContain('FOREIGNCANARY')
    expect(label).toEqual([])
  })

  test('finds in a confidential space also its own messages', async () => {
    const { result, label, secret } = await found('secret', { query: 'heron' })
    expect(result).toContain('OPENCANARY')
    expect(result).toContain('SECRETCANARY')
    expect(result).not.toContain('FOREIGNCANARY')
    expect(label).toEqual([secret.id])
  })

  test('finds the texts of files under the same rules, and names the file', async () => {
    const fromOpen = await found('open', { query: 'egret' })
    expect(fromOpen.result).toContain('OPENFILE')
    expect(fromOpen.result).toMatch(/fil_\w+/)
    expect(fromOpen.result).not.toMatch(/SECRETFILE|FOREIGNFILE/)
    expect(fromOpen.label).toEqual([])
    const fromSecret = await found('secret', { query: 'egret' })
    expect(fromSecret.result).toContain('SECRETFILE')
    expect(fromSecret.result).not.toContain('FOREIGNFILE')
    expect(fromSecret.label).toEqual([fromSecret.secret.id])
  })

  test('finds no messages with other words or from other senders', async () => {
    expect((await found('open', { query: 'ostrich' })).result).not.toContain('CANARY')
    expect((await found('open', { query: 'heron', from: 'Bob' })).result).not.toContain('CANARY')
  })
})
