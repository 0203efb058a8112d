import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { buffer } from 'node:stream/consumers'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { RULE_STACKS, startApplication, type TestApplication } from '../support/application.ts'
import { type McpServer, startMcpServer } from '../support/mcp-server.ts'
import { type ModelServer, startModelServer } from '../support/model-server.ts'
import { steps } from '../support/model-server-script.ts'
import { until } from '../support/until.ts'

const PNG = Buffer.from('\x89PNG\r\n\x1a\n0000', 'latin1')
/** An empty archive that its server labels as a PDF file. */
const ZIP = Buffer.from(`504b0506${'00'.repeat(18)}`, 'hex')
const TEXT_TOOL = {
  name: 'fetch_data',
  description: 'Fetches.',
  inputSchema: { type: 'object' },
  execution: 'HTTP' as const,
}
const WORDS = 'A file of type image/png, 12 bytes.'

describe.each(RULE_STACKS)('an image that a tool returns, on the %s stack', (stack) => {
  let parley: TestApplication
  let spare: ModelServer
  let drawing: Server
  let mcp: McpServer
  let url: string

  beforeAll(async () => {
    spare = await startModelServer()
    drawing = createServer((request, response) => {
      if (request.url === '/refuses') {
        response.writeHead(422, { 'content-type': 'application/json' })
        return response.end('{"field":"size","key":"secret-of-the-tool"}')
      }
      if (request.url === '/data') return response.writeHead(200, { 'content-type': 'application/pdf' }).end(ZIP)
      response.writeHead(200, { 'content-type': 'image/png' }).end(PNG)
    })
    await new Promise<void>((listening) => drawing.listen(0, '127.0.0.1', listening))
    url = `http://127.0.0.1:${(drawing.address() as AddressInfo).port}`
    const content = [{ type: 'image', data: PNG.toString('base64'), mimeType: 'image/png' }]
    mcp = await startMcpServer([{ name: 'draw', answer: () => ({ content }) }])
    const providers = {
      anthropic: { api: 'anthropic', baseUrl: spare.baseUrl, apiKey: 'a-key' },
      google: { api: 'google', baseUrl: spare.googleUrl, apiKey: 'a-key' },
    }
    parley = await startApplication({ stack, settings: { PARLEY_PROVIDERS: JSON.stringify(providers) } })
  })
  afterAll(async () => {
    await parley?.close()
    await mcp?.close()
    await spare?.close()
    drawing?.close()
  })
  beforeEach(() => {
    parley.models.reset()
    spare.reset()
  })

  async function drawWith(model: string, toolCall = 'draw', path = '') {
    const script = steps([{ toolCall, input: {} }], [{ text: 'Done.' }])
    for (const server of [parley.models, spare]) server.script(script)
    const tool = { name: 'draw', description: 'Draws.', inputSchema: { type: 'object' }, execution: 'HTTP' as const }
    const headers = { authorization: 'secret-of-the-tool' }
    const { human, space } = await parley.room('Ada', {
      model,
      tools: [{ ...tool, url: `${url}${path}`, headers }],
      mcpServers: [{ name: 'art', url: mcp.url }],
    })
    const { runs } = await parley.send(human, space.id, 'Draw')
    const run = await parley.runWhen(runs[0]?.id ?? '')
    const [call] = (await parley.app.domain.toolCalls.ofRuns([run.id])).get(run.id) ?? []
    const last = [...parley.models.requests, ...spare.requests].at(-1)
    return { run, call, body: JSON.stringify(last?.body) }
  }

  test.each(['draw', 'art__draw'])(
    'an image from %s is shown to models that take images, and described to others',
    async (name) => {
      const data = PNG.toString('base64')
      for (const model of ['anthropic:claude-haiku-4-5', 'google:gemini-3-flash', 'openai:gpt-5-mini']) {
        const { run, call, body } = await drawWith(model, name)
        expect(run).toMatchObject({ status: 'COMPLETED' })
        expect(body).toContain(data)
        expect(JSON.stringify(call?.output)).not.toContain(data)
        expect(call?.output).toContain(WORDS)
        const files = await parley.app.domain.files.ofCalls(parley.admin, [call!.id])
        // Its bytes are not a complete picture.
        expect(files[0]).toMatchObject([
          { mediaType: 'application/octet-stream', size: PNG.byteLength, messageId: null },
        ])
        expect(body).toContain(files[0]![0]!.id)
        parley.models.reset()
        spare.reset()
      }
      const { body } = await drawWith('openai.chat:test', name)
      expect(body).toContain(WORDS)
      expect(body).not.toContain(data)
    },
  )

  test('is not kept in the consciousness of a persistent agent', async () => {
    parley.models.script(steps([{ toolCall: 'draw', input: {} }], [{ text: 'Done.' }]))
    spare.script(steps([{ toolCall: 'draw', input: {} }], [{ text: 'Done.' }]))
    const { human, space, agent } = await parley.room('Ida', {
      mind: 'PERSISTENT',
      model: 'anthropic:claude-haiku-4-5',
      tools: [{ name: 'draw', description: 'Draws.', inputSchema: { type: 'object' }, execution: 'HTTP', url }],
    })
    await parley.send(human, space.id, 'Draw')
    const done = await spare.request(({ step }) => step === 1)
    expect(JSON.stringify(done.body)).toContain(PNG.toString('base64'))
    const { prisma } = parley.app.platform.db
    const cycle = await until('the cycle is remembered', () => prisma.cycle.findFirst({ where: { agentId: agent.id } }))
    expect(JSON.stringify(cycle.messages)).toContain(WORDS)
    expect(JSON.stringify(cycle.messages)).not.toContain(PNG.toString('base64'))
  })

  test('is a file of its call: the agent can read it, people see it where they see the output, and it is deleted with the call', async () => {
    const { agent, human, space } = await parley.room('Zoe', {
      model: 'openai.chat:test',
      tools: [{ ...TEXT_TOOL, url: `${url}/data`, visible: true }],
      mcpServers: [{ name: 'art', url: mcp.url }],
    })
    const stranger = await parley.human('Stranger')
    let fileId = ''
    parley.models.script((request) => {
      const found = /fil_[0-9a-f]{32}/.exec(JSON.stringify(request.messages.at(-1)))?.[0]
      if (request.step === 0) return [{ toolCall: 'enter_space', input: { spaceId: space.id } }]
      if (request.step === 1) return [{ toolCall: 'fetch_data', input: {} }]
      if (request.step === 2) return [{ toolCall: 'art__draw', input: {} }]
      fileId ||= found ?? ''
      return request.step === 3 ? [{ toolCall: 'read_file', input: { fileId } }] : [{ text: 'Done.' }]
    })
    const { runs } = await parley.send(human, space.id, 'Fetch')
    await parley.runWhen(runs[0]!.id)
    const { domain, platform } = parley.app
    const calls = (await domain.toolCalls.ofRuns([runs[0]!.id])).get(runs[0]!.id) ?? []
    const [shown, hidden, read] = ['fetch_data', 'art__draw', 'read_file'].map(
      (name) => calls.find((c) => c.toolName === name)!,
    )
    expect(read!.output).toMatchObject({ fileId, name: 'result.png', size: PNG.byteLength })
    const [shownFiles, hiddenFiles] = await domain.files.ofCalls(human, [shown!.id, hidden!.id])
    expect(shownFiles).toMatchObject([{ mediaType: 'application/zip', size: ZIP.byteLength }])
    expect(hiddenFiles).toEqual([])
    expect(await domain.files.ofCalls(stranger, [shown!.id])).toEqual([[]])
    const { read: load } = await domain.files.open(human, shownFiles![0]!.id, 'original')
    expect(await buffer(await load())).toEqual(ZIP)
    for (const [viewer, id] of [
      [human, fileId],
      [stranger, shownFiles![0]!.id],
    ] as const)
      await expect(domain.files.open(viewer, id, 'original')).rejects.toThrow('There is no such file.')
    expect(await domain.files.readableBy(agent.id, fileId)).toMatchObject({ spaceId: null })
    expect(await domain.files.readableBy((await parley.agent('Other')).id, fileId)).toBeNull()
    await platform.db.prisma.toolCall.delete({ where: { id: hidden!.id } })
    expect(await platform.db.prisma.file.count({ where: { id: fileId } })).toBe(0)
  })

  test('is copied with the space that shows its call', async () => {
    const { human, space } = await parley.room('Ria', {
      model: 'openai.chat:test',
      tools: [{ ...TEXT_TOOL, url: `${url}/data`, visible: true }],
    })
    parley.models.script(
      steps(
        [{ toolCall: 'enter_space', input: { spaceId: space.id } }],
        [{ toolCall: 'fetch_data', input: {} }],
        [{ text: 'Done.' }],
      ),
    )
    const { runs } = await parley.send(human, space.id, 'Fetch')
    await parley.runWhen(runs[0]!.id)
    const { domain, platform } = parley.app
    const { prisma } = platform.db

    const copy = await domain.forking.fork(human, { spaceId: space.id })
    const shown = await prisma.toolCall.findFirstOrThrow({ where: { spaceId: copy.id, toolName: 'fetch_data' } })
    const [files] = await domain.files.ofCalls(human, [shown.id])
    expect(files).toMatchObject([{ mediaType: 'application/zip', spaceId: null, messageId: null }])
    const { read } = await domain.files.open(human, files![0]!.id, 'original')
    expect(await buffer(await read())).toEqual(ZIP)
    expect(JSON.stringify(shown.files)).toContain(files![0]!.id)
    await domain.deletion.deleteSpace(human, { id: space.id })
    await domain.deletion.sweep()
    expect(await domain.files.ofCalls(human, [shown.id])).toMatchObject([[{ id: files![0]!.id }]])
    await prisma.message.delete({ where: { id: shown.messageId! } })
    await prisma.toolCall.delete({ where: { id: shown.id } })
    expect(await prisma.file.count({ where: { id: files![0]!.id } })).toBe(0)
  })

  test('is read again by a run that is repeated after the call', async () => {
    const { human, space } = await parley.room('Rob', {
      model: 'openai.chat:test',
      mcpServers: [{ name: 'art', url: mcp.url }],
    })
    const fileIn = (message: unknown) => /fil_[0-9a-f]{32}/.exec(JSON.stringify(message))?.[0] ?? ''
    parley.models.script((request) => {
      if (request.step === 0) return [{ toolCall: 'art__draw', input: {} }]
      const input = { fileId: fileIn(request.messages.at(-1)) }
      return request.step === 1 ? [{ toolCall: 'read_file', input }] : [{ text: 'Done.' }]
    })
    const { runs } = await parley.send(human, space.id, 'Draw')
    const run = await parley.runWhen(runs[0]!.id)
    const { domain } = parley.app
    const again = await domain.forking.rerun(parley.admin, { runId: run.id, step: 1 })
    await parley.runWhen(again.id)
    const readsOf = async (id: string) => {
      const calls = (await domain.toolCalls.ofRuns([id])).get(id) ?? []
      return calls.filter(({ toolName }) => toolName === 'read_file').map(({ output }) => output as { fileId: string })
    }
    const [[before], [after]] = [await readsOf(run.id), await readsOf(again.id)]
    expect(after).toMatchObject({ name: 'result.png', size: PNG.byteLength })
    expect(after?.fileId).not.toBe(before?.fileId)
  })

  test('of an approved call is a file of that call', async () => {
    const { human, space, agent } = await parley.room('Abe', {
      model: 'openai.chat:test',
      tools: [{ ...TEXT_TOOL, url: `${url}/data`, approval: { quorum: 1 } }],
    })
    parley.models.script(
      steps(
        [{ toolCall: 'enter_space', input: { spaceId: space.id } }],
        [{ toolCall: 'fetch_data', input: {} }],
        [{ text: 'Done.' }],
      ),
    )
    const { runs } = await parley.send(human, space.id, 'Fetch')
    await parley.runWhen(runs[0]!.id, 'WAITING_TOOL')
    const { domain, platform } = parley.app
    const { id } = await platform.db.prisma.toolCall.findFirstOrThrow({
      where: { agentId: agent.id, toolName: 'fetch_data' },
    })
    await domain.control.decideToolCall(human, { toolCallId: id, approve: true })
    await parley.runWhen(runs[0]!.id)
    const [files] = await domain.files.ofCalls(parley.admin, [id])
    expect(files).toMatchObject([{ mediaType: 'application/zip', size: ZIP.byteLength }])
  })

  test('an image from a confidential space is read only by runs that may read that space', async () => {
    const { agent, human, space } = await parley.room(
      'Eva',
      {
        model: 'openai.chat:test',
        mcpServers: [{ name: 'art', url: mcp.url, mayReceiveConfidential: true }],
      },
      { confidential: true },
    )
    const open = await parley.space(human, [agent.id])
    parley.models.script(steps([{ toolCall: 'art__draw', input: {} }], [{ text: 'Done.' }]))
    const { runs } = await parley.send(human, space.id, 'Draw')
    await parley.runWhen(runs[0]!.id)
    const { id } = await parley.app.platform.db.prisma.file.findFirstOrThrow({ where: { ownerId: agent.id } })
    parley.models.reset()
    parley.models.script(steps([{ toolCall: 'read_file', input: { fileId: id } }], [{ text: 'Done.' }]))
    for (const [where, expected] of [
      [open.id, { error: { code: 'NOT_FOUND' } }],
      [space.id, { fileId: id }],
    ] as const) {
      const sent = await parley.send(human, where, 'Read')
      await parley.runWhen(sent.runs[0]!.id)
      const [call] = (await parley.app.domain.toolCalls.ofRuns([sent.runs[0]!.id])).get(sent.runs[0]!.id) ?? []
      expect(call?.output).toMatchObject(expected)
    }
  })

  test('a failure carries the server’s JSON, without header values', async () => {
    const { call, body } = await drawWith('openai.chat:test', 'draw', '/refuses')
    const details = { field: 'size', key: '[removed]' }
    expect(call).toMatchObject({ status: 'FAILED', output: { error: { code: 'BAD_STATUS', details } } })
    expect(body).not.toContain('secret-of-the-tool')
  })
})
