import { isStepCount, jsonSchema, streamText, type ToolSet, tool } from 'ai'
import { describe, expect, test } from 'vitest'
import { instructionsOf, triggerMessageOf } from '../../src/context/prompt.ts'
import { createDemoModel } from '../../src/models/demo.ts'

interface Said {
  from: string
  kind: 'human' | 'agent'
  text: string
}

const ALPHA = '- "Alpha" (id: spc_alpha) [ACTIVE] — Members: Grace (human), Bob (agent), You (agent)'
const BETA = '- "Beta" (id: spc_beta) — Members: Grace (human), You (agent)'

function line(said: Said, index: number): string {
  return JSON.stringify({ id: `msg_${index}`, at: `2026-11-21T22:0${index}:00.000Z`, ...said })
}

/** Returns the prompt of a run that was triggered in the space Alpha by the last of the given messages. */
function prompted(messages: Said[]): { instructions: string; prompt: string } {
  const lines = messages.map(line)
  return {
    instructions: `You are Ada, an agent.\n\nYOUR SPACES:\n${ALPHA}\n${BETA}\n\nMEMORIES:\n- colour: green\n`,
    prompt: `TRIGGER:\nA message in "Alpha" (id: spc_alpha):\n${lines.at(-1)}\n\nRECENT MESSAGES:\n${lines.join('\n')}\n`,
  }
}

interface Called {
  toolName: string
  input: unknown
}

function createTools(called: Called[], names: string[], results: Record<string, unknown> = {}): ToolSet {
  const schemas: Record<string, object> = {
    enter_space: { spaceId: { type: 'string' } },
    send_message: { text: { type: 'string' } },
    sendSpaceMessage: { spaceId: { type: 'string' }, text: { type: 'string' }, mention: { type: 'string' } },
    set_memories: {
      memories: {
        type: 'array',
        items: {
          type: 'object',
          properties: { key: { type: 'string' }, value: { type: 'string' } },
          required: ['key', 'value'],
        },
      },
    },
    get_weather: { city: { type: 'string' }, unit: { enum: ['celsius', 'fahrenheit'] }, days: { type: 'integer' } },
    send_file: { name: { type: 'string' }, mediaType: { type: 'string' }, text: { type: 'string' } },
    search_messages: { query: { type: 'string' }, limit: { type: 'integer' } },
    edit_message: { messageId: { type: 'string' }, text: { type: 'string' } },
    skip: { reason: { type: 'string' } },
    order_fleece: { item: { type: 'string' }, rolls: { type: 'integer' }, price_in_euros: { type: 'number' } },
  }
  const required: Record<string, string[]> = { sendSpaceMessage: ['spaceId', 'text'], get_weather: ['city', 'days'] }
  return Object.fromEntries(
    names.map((name) => [
      name,
      tool({
        inputSchema: jsonSchema({
          type: 'object',
          properties: schemas[name],
          required: required[name] ?? Object.keys(schemas[name] ?? {}),
        } as Parameters<typeof jsonSchema>[0]),
        execute: (input) => {
          called.push({ toolName: name, input })
          return results[name] ?? { success: true }
        },
      }),
    ]),
  )
}

async function run(
  request: { instructions: string; prompt: string },
  names: string[] = ['enter_space', 'send_message'],
  results: Record<string, unknown> = {},
) {
  const called: Called[] = []
  const result = streamText({
    model: createDemoModel({ tokensPerSecond: 0 }),
    ...request,
    tools: createTools(called, names, results),
    stopWhen: isStepCount(12),
  })
  const parts = []
  for await (const part of result.fullStream) parts.push(part)
  return { called, parts, text: await result.text, usage: await result.totalUsage, sent: called.flatMap(textOf) }
}

function textOf({ toolName, input }: Called): string[] {
  return toolName === 'send_message' || toolName === 'sendSpaceMessage' ? [(input as { text: string }).text] : []
}

const grace = (text: string): Said => ({ from: 'Grace', kind: 'human', text })

describe('the demo model with ACTIVE_SPACE tools', () => {
  test('greets the sender by name, introduces itself and explains how to use a real model', async () => {
    const { called, sent, text } = await run(prompted([grace('Good morning')]))
    expect(called.map(({ toolName }) => toolName)).toEqual(['send_message'])
    expect(sent[0]).toMatch(/^Hello Grace! I read your message: "Good morning"\./)
    expect(sent[0]).toContain("I am Ada, run by Parley's built-in demo model")
    expect(sent[0]).toContain('OPENAI_API_KEY')
    expect(text).toBe('I answered a message of Grace in "Alpha".')
  })

  test('names files instead of quoting their marks', async () => {
    const beds = '[file "beds.csv", text/csv, fil_01a2]'
    const plan = '[file "the \\"new\\" plan.png", image/png, fil_01a3]'
    const files = 'the file beds.csv and the file the "new" plan.png'
    for (const [text, answer] of [
      [`Here they are.\n\n${beds}\n\n${plan}`, `I read your message: "Here they are." with ${files}.`],
      [`${beds}\n\n${plan}`, `I read your message: ${files}.`],
    ] as const) {
      const { sent } = await run(prompted([grace(text)]))
      expect(sent[0]).toContain(`Hello Grace! ${answer}`)
    }
  })

  test.each([
    ['Ada, who is here?', 'In "Alpha" there are Grace (human), Bob (agent) and me (agent).'],
    ['What was said last?', 'The last message before yours: Bob wrote "The report is ready".'],
    ['how many messages are there', 'I see 4 messages here.'],
    ["What's the time?", 'Your message came on 21 November 2026 at 22:03 UTC.'],
    ['What are you?', "I am Ada, run by Parley's built-in demo model"],
    ['What do you remember?', 'I remember: colour: green.'],
  ])('responds to %j from its prompt', async (question, answer) => {
    const { sent } = await run(
      prompted([
        grace('Good morning'),
        { from: 'Ada', kind: 'agent', text: 'Hello Grace!' },
        { from: 'Bob', kind: 'agent', text: 'The report is ready' },
        grace(question),
      ]),
    )
    expect(sent).toHaveLength(1)
    expect(sent[0]).toContain(`Hello Grace! ${answer}`)
  })

  test('streams the message as the input of the tool call, token by token', async () => {
    const { parts, sent } = await run(prompted([grace('Hi')]))
    const deltas = parts.flatMap((part) => (part.type === 'tool-input-delta' ? [part.delta] : []))
    expect(JSON.parse(deltas.join(''))).toEqual({ text: sent[0] })
    expect(deltas.length).toBeGreaterThan(20)
  })

  test('returns plausible usage', async () => {
    const { usage, sent } = await run(prompted([grace('Hi')]))
    expect(usage.inputTokens).toBeGreaterThan(100)
    expect(usage.outputTokens).toBeGreaterThan((sent[0] as string).length / 8)
    expect(usage.outputTokens).toBeLessThan((sent[0] as string).length / 2)
  })

  test('is deterministic, including call ids, and each step has its own ids', async () => {
    const ids = (parts: { type: string; toolCallId?: string }[]) =>
      parts.flatMap((part) => (part.type === 'tool-call' ? [part.toolCallId] : []))
    const request = prompted([grace('Ada, get weather in New York for 3 days, in fahrenheit')])
    const one = await run(request, ['send_message', 'get_weather'])
    const other = await run(request, ['send_message', 'get_weather'])
    expect(ids(one.parts)).toEqual(ids(other.parts))
    expect(one.called).toEqual(other.called)
    expect(new Set(ids(one.parts)).size).toBe(2)
  })

  test('calls the tool that a message names, with valid input, and reports its result', async () => {
    const { called, sent } = await run(
      prompted([grace('Please get weather in New York for 3 days, in Fahrenheit')]),
      ['enter_space', 'send_message', 'get_weather'],
      { get_weather: { degrees: 21 } },
    )
    expect(called[0]).toEqual({ toolName: 'get_weather', input: { city: 'New York', unit: 'fahrenheit', days: 3 } })
    expect(sent[0]).toContain('Hello Grace! get_weather answered: {"degrees":21}.')
  })

  test('sends a file, searches, answers in a thread and edits its answer on request', async () => {
    const names = ['enter_space', 'send_message', 'send_file', 'search_messages', 'edit_message']
    const results = {
      send_message: { success: true, messageId: 'msg_9' },
      search_messages: { found: [{ id: 'msg_1' }] },
    }
    const asked = async (text: string) => (await run(prompted([grace(text)]), names, results)).called
    const inputsOf = (called: Called[]) => Object.fromEntries(called.map(({ toolName, input }) => [toolName, input]))
    const file = inputsOf(await asked('Ada, please send me a file'))
    expect(file['send_file']).toMatchObject({ name: 'note.txt', mediaType: 'text/plain' })
    expect(file['send_message']).toMatchObject({ text: expect.stringContaining('I sent the file note.txt.') })
    const search = inputsOf(await asked('Search for green tomatoes.'))
    expect(search['search_messages']).toEqual({ query: 'green tomatoes', limit: 5 })
    expect(search['send_message']).toMatchObject({ text: expect.stringContaining('I found 1 message with') })
    expect(inputsOf(await asked('Answer in a thread'))['send_message']).toMatchObject({ replyTo: 'msg_0' })
    const edited = await asked('Who is here? Then edit your answer.')
    expect(edited.map(({ toolName }) => toolName)).toEqual(['send_message', 'edit_message'])
    expect(inputsOf(edited)['edit_message']).toMatchObject({
      messageId: 'msg_9',
      text: expect.stringMatching(/^Hello Grace!.*\(I have edited this message\.\)$/),
    })
    // Without these tools, and for messages of agents, it answers as usual.
    expect(
      (await run(prompted([grace('Send a file and search for peas, then edit your answer')]))).called,
    ).toHaveLength(1)
  })

  test('remembers on request', async () => {
    const { called, sent } = await run(prompted([grace('Remember that the launch is on Friday.')]), [
      'send_message',
      'set_memories',
    ])
    expect(called[0]).toEqual({
      toolName: 'set_memories',
      input: { memories: [{ key: 'the_launch_is_on', value: 'the launch is on Friday.' }] },
    })
    expect(sent[0]).toContain('I will remember that the launch is on Friday.')
  })

  test('stays silent after another agent’s message, unless the message names it', async () => {
    const bob = (text: string): Said => ({ from: 'Bob', kind: 'agent', text })
    expect(
      (await run(prompted([bob('In "Alpha" there are Grace (human), Ada (agent) and me (agent).')]))).sent,
    ).toEqual([])
    const silent = await run(prompted([bob('Hello Grace!')]))
    expect(silent.called).toEqual([])
    expect(silent.text).toContain('I read a message of Bob and said nothing')
    const addressed = await run(prompted([bob('Hello Ada, are you there?')]))
    expect(addressed.sent).toHaveLength(1)
  })

  test('never writes to an agent what the next demo agent would take as addressed to it', async () => {
    const texts = ['Ada, who is here?', '@Ada what was said last?', 'Hi Ada! Bob, Bob. Hello Bob!']
    for (const text of texts) {
      const { sent } = await run(prompted([grace('Bob, look'), { from: 'Bob', kind: 'agent', text }]))
      expect(sent).toHaveLength(1)
      expect(sent[0]).not.toContain('Bob')
    }
  })

  test('quotes no message that names another agent', async () => {
    for (const text of ['Ada, say hello. Bob please wait', 'Ada: @Bob please ask approval']) {
      const { sent } = await run(prompted([grace(text)]))
      expect(sent[0]).toMatch(/^Hello Grace! I read your message\. /)
    }
    const { sent } = await run(prompted([grace('Hi Bob!'), grace('Ada, what was said last?')]))
    expect(sent[0]).toContain('The last message before yours: Grace wrote to an agent.')
  })

  test('calls skip if it is available and the inbox addresses nobody', async () => {
    const { called } = await run(prompted([grace('Hey Bob, can you look?')]), ['send_message', 'skip'])
    expect(called.map(({ toolName }) => toolName)).toContain('skip')
    expect(called.map(({ toolName }) => toolName)).not.toContain('send_message')
  })

  test('ends with its current state if a tool fails', async () => {
    const { called, text } = await run(prompted([grace('Hi')]), ['enter_space', 'send_message'], {
      send_message: { error: { code: 'NO_ACTIVE_SPACE', message: 'call enter_space first' } },
    })
    expect(called).toHaveLength(1)
    expect(text).toContain('send_message failed')
  })
})

describe('the demo model in the Try it scene', () => {
  const inRole = (role: string, messages: Said[]) => {
    const { instructions, prompt } = prompted(messages)
    return { instructions: `${instructions}\n(The demo model plays: ${role}.)`, prompt }
  }
  const TOOLS = ['send_message', 'skip', 'order_fleece']
  const FROST = 'Will there be frost tonight?'
  const ORDER = 'Order two rolls of fleece'

  test.each([
    ['forecaster', 'Who is here?', 'In "Alpha" there are'],
    ['forecaster', FROST, '| 05:00 | **−1.8 °C** | hard frost |'],
    ['forecaster', ORDER, null],
    ['skeptic', 'Who is here?', null],
    ['skeptic', FROST, null],
    ['buyer', 'Who is here?', null],
    ['buyer', FROST, null],
    ['buyer', ORDER, 'Ordered: two rolls of fleece, here before dusk.'],
    ['buyer', 'Please buy 3 rolls', 'Ordered: three rolls of fleece, here before dusk.'],
  ])('the %s answers %j with %j, once', async (role, text, answer) => {
    const { called, sent } = await run(inRole(role, [grace(text)]), TOOLS)
    if (answer === null) expect(called.map(({ toolName }) => toolName)).toEqual(['skip'])
    else expect(sent).toEqual([expect.stringContaining(answer)])
    expect(called.filter(({ toolName }) => toolName === 'order_fleece')).toHaveLength(/roll/.test(answer ?? '') ? 1 : 0)
  })

  test('the skeptic questions a forecast, and nobody answers agents otherwise', async () => {
    const { sent: forecast } = await run(inRole('forecaster', [grace(FROST)]), TOOLS)
    const bob = (text: string): Said => ({ from: 'Bob', kind: 'agent', text })
    const { sent: question } = await run(inRole('skeptic', [grace(FROST), bob(forecast[0] ?? '')]), TOOLS)
    expect(question).toEqual([expect.stringMatching(/\?$/)])
    for (const text of [forecast[0] ?? '', question[0] ?? '', 'Ordered: two rolls of fleece, here before dusk.'])
      for (const role of ['forecaster', 'buyer']) {
        const { called } = await run(inRole(role, [bob(text)]), TOOLS)
        expect(called.map(({ toolName }) => toolName)).toEqual(['skip'])
      }
  })

  test('the buyer orders nothing after a denial', async () => {
    const denied = { order_fleece: { error: { message: 'Denied by Grace.' } } }
    const { called, sent } = await run(inRole('buyer', [grace(ORDER)]), TOOLS, denied)
    expect(called.map(({ toolName }) => toolName)).toEqual(['order_fleece', 'send_message'])
    expect(sent).toEqual(['I ordered nothing.'])
  })
})

describe('the demo model without an active space', () => {
  const instructions = `You are Ada, an agent.\n\nYOUR SPACES:\n${ALPHA.replace(' [ACTIVE]', '')}\n${BETA}`

  test('enters the first space for a plan, and reports there', async () => {
    const { called } = await run({
      instructions,
      prompt: 'TRIGGER:\nYour plan "Morning report" is due:\nGreet everybody',
    })
    expect(called).toEqual([
      { toolName: 'enter_space', input: { spaceId: 'spc_alpha' } },
      {
        toolName: 'send_message',
        input: { text: 'The plan "Morning report" is due: Greet everybody' },
      },
    ])
  })

  test('enters the space that a plan names', async () => {
    const { called } = await run({ instructions, prompt: 'TRIGGER:\nPlan "Report":\nTell Beta that it is late' })
    expect(called[0]).toEqual({ toolName: 'enter_space', input: { spaceId: 'spc_beta' } })
  })

  test('reports the payload of a service', async () => {
    const { sent } = await run({
      instructions,
      prompt: 'TRIGGER:\nThe service "jira" called you:\n{"ticket":"PROJ-1"}',
    })
    expect(sent[0]).toMatch(/^The service "jira" called me: .*\{"ticket":"PROJ-1"\}/)
  })

  test('explains why it cannot enter', async () => {
    const { called, text } = await run(
      { instructions, prompt: 'TRIGGER:\nPlan "Report": x' },
      ['enter_space', 'send_message'],
      {
        enter_space: { error: { code: 'NOT_A_MEMBER', message: 'You are not a member of that space.' } },
      },
    )
    expect(called).toHaveLength(1)
    expect(text).toContain('enter_space failed')
  })

  test('processes an inbox, space by space', async () => {
    const inbox = [
      'INBOX (5 events, 2026-11-21T22:00:00.000Z):',
      '- [Alpha (id: spc_alpha)] Grace (human): "Who is here?"',
      '- [Alpha (id: spc_alpha)] Bob (agent): "Not for you"',
      '- [Beta (id: spc_beta)] Grace (human): "What are you?"',
      '- [PLAN Standup] Ask Beta for news',
      '- [TOOL_RESULT approve (id: tcl_1)] {"approved":true}',
    ].join('\n')
    const { called, text } = await run({ instructions, prompt: inbox }, ['enter_space', 'send_message', 'skip'])
    expect(called).toEqual([
      { toolName: 'enter_space', input: { spaceId: 'spc_alpha' } },
      { toolName: 'send_message', input: { text: expect.stringContaining('In "Alpha" there are') } },
      { toolName: 'enter_space', input: { spaceId: 'spc_beta' } },
      { toolName: 'send_message', input: { text: expect.stringContaining('Hello Grace! I am Ada') } },
      { toolName: 'send_message', input: { text: expect.stringContaining('The plan "Standup" is due: Ask Beta') } },
      { toolName: 'enter_space', input: { spaceId: 'spc_alpha' } },
      { toolName: 'send_message', input: { text: expect.stringContaining('The tool "approve" has answered') } },
    ])
    expect(text).toContain('5 events')
  })
})

describe('the demo model with the prompts of the engine', () => {
  const spaces = [
    {
      id: 'spc_alpha',
      name: 'Alpha, the "first"',
      members: [
        { id: 'hum_1', name: 'Grace', kind: 'HUMAN' },
        { id: 'agt_1', name: 'Ada, the Great', kind: 'AGENT' },
        { id: 'agt_2', name: 'Bob', kind: 'AGENT' },
      ],
    },
  ]
  const said = {
    id: 'msg_1',
    sender: 'Grace',
    senderId: 'hum_1',
    type: 'human',
    timestamp: '2026-11-21T22:00:00.000Z',
    text: 'Who is here?',
  }

  function built(run: object, scene: object) {
    const agent = {
      id: 'agt_1',
      name: 'Ada, the Great',
      instructions: 'Be brief.\nSPEAK: plainly.',
      tools: [],
      goals: [],
      plans: [],
      memories: [{ key: 'colour', value: 'green' }],
    }
    const nothing = { otherRuns: [], history: [], triggerMessage: null, triggerTexts: [], task: null, origin: {} }
    const whole = { agent, spaces, ...nothing, ...scene }
    const claim = {
      run: {
        id: 'run_1',
        triggerSummary: 'something',
        triggerSpaceId: null,
        triggerMessageId: 'msg_1',
        wokenBy: null,
        ...run,
      },
    } as never
    const activeSpaceId = 'triggerSpaceId' in run ? String(run.triggerSpaceId) : null
    return {
      instructions: instructionsOf({ claim, scene: whole as never, activeSpaceId, guidance: ['- Use send_message.'] }),
      prompt: triggerMessageOf(claim, whole as never),
    }
  }

  test('answers a message', async () => {
    const { called } = await run(
      built(
        { triggerType: 'SPACE_MESSAGE', triggerSpaceId: 'spc_alpha' },
        {
          history: [said],
          triggerMessage: said,
          origin: { triggerSenderName: 'Grace', triggerSpaceName: 'Alpha, the "first"' },
        },
      ),
    )
    expect(called).toEqual([
      {
        toolName: 'send_message',
        input: {
          text: expect.stringContaining(
            'Hello Grace! In "Alpha, the "first"" there are Grace (human), Bob (agent) and me (agent). I am Ada, the Great, run by',
          ),
        },
      },
    ])
  })

  test('greets the sender of a message that is not in its history', async () => {
    const { sent } = await run(
      built(
        { triggerType: 'SPACE_MESSAGE', triggerSpaceId: 'spc_alpha' },
        { origin: { triggerSenderName: 'Grace', triggerSpaceName: 'Alpha' } },
      ),
    )
    expect(sent[0]).toMatch(/^Hello Grace!/)
  })

  test('reports a plan and a service, even one whose payload looks like a message', async () => {
    const plan = { triggerType: 'PLAN', triggerName: 'Standup', triggerPayload: { instruction: 'Say good morning' } }
    expect((await run(built(plan, {}))).sent).toEqual(['The plan "Standup" is due: Say good morning'])
    const payload = { from: 'Grace', text: 'Who is here?', id: 'PROJ-1' }
    const service = { triggerType: 'SERVICE', triggerName: 'jira', triggerPayload: payload }
    expect((await run(built(service, {}))).sent).toEqual([`The service "jira" called me: ${JSON.stringify(payload)}`])
  })
})

describe('the demo model with SPACE_TOOLS', () => {
  test('names the space in its posting call', async () => {
    const { called } = await run(prompted([grace('Hi')]), ['readSpaceMessages', 'sendSpaceMessage'])
    expect(called).toEqual([
      { toolName: 'sendSpaceMessage', input: { spaceId: 'spc_alpha', text: expect.stringContaining('Hello Grace!') } },
    ])
  })
})

describe('the demo model as a model', () => {
  test('streams at its pace and stops at once when it is aborted', async () => {
    const stop = new AbortController()
    const result = streamText({
      model: createDemoModel({ tokensPerSecond: 200 }),
      ...prompted([grace('Hi')]),
      tools: createTools([], ['send_message']),
      abortSignal: stop.signal,
    })
    let deltas = 0
    const types = []
    for await (const part of result.fullStream) {
      types.push(part.type)
      if (part.type === 'tool-input-delta' && ++deltas === 5) stop.abort()
    }
    expect(types).toContain('abort')
    expect(deltas).toBeLessThan(10)
  })

  test('takes as long as its pace requires', async () => {
    const startedAt = performance.now()
    const result = streamText({
      model: createDemoModel({ tokensPerSecond: 200 }),
      ...prompted([grace('Hi')]),
      tools: createTools([], ['send_message']),
    })
    await result.consumeStream()
    const { outputTokens = 0 } = await result.totalUsage
    expect(performance.now() - startedAt).toBeGreaterThan((outputTokens - 2) * 5)
  })

  test('calls a tool if one is required, and none if tools are forbidden', async () => {
    const request = prompted([{ from: 'Bob', kind: 'agent', text: 'Nothing for you' }])
    const model = createDemoModel({ tokensPerSecond: 0 })
    const must = streamText({ model, ...request, tools: createTools([], ['enter_space']), toolChoice: 'required' })
    expect((await must.toolCalls).map(({ toolName }) => toolName)).toEqual(['enter_space'])
    const may = streamText({
      model,
      ...prompted([grace('Hi')]),
      tools: createTools([], ['send_message']),
      toolChoice: 'none',
    })
    expect(await may.toolCalls).toEqual([])
  })

  test('answers any prompt', async () => {
    const { text } = await run({ instructions: '', prompt: 'Tell me a story' })
    expect(text.length).toBeGreaterThan(10)
  })
})
