import { Webhook } from 'standardwebhooks'
import { forAgent, type ModelAction } from '../support/model-server-script.ts'
import type { Read } from '../support/stage.ts'
import { inboxIn, spaceIn } from '../support/thinking.ts'
import { delegates, mentions, say, skips } from '../support/turns.ts'
import { until } from '../support/until.ts'
import type { Play, Prepared, World } from './crashes.ts'

/** Returns a mutation with one input, whose result may be an error. */
const mutation = (field: string, selection = '') => {
  const name = field.charAt(0).toUpperCase() + field.slice(1)
  const payload = selection === '' ? '' : `... on ${name}Payload { ${selection} }`
  return `mutation ($input: ${name}Input!) { ${field}(input: $input) { __typename ${payload} ... on Error { message } } }`
}

/** Sends a mutation as a person, an admin or a service. */
const mutates =
  (world: World, token: string, field: string, input: object): Prepared['request'] =>
  (origin) =>
    world.ask(token, mutation(field), { input }, origin)

/** Scripts the actions of an agent for each step. `steps` can depend on the request. */
function plays(world: World, name: string, ...steps: ModelAction[][]): void {
  world.parley.models.script(forAgent(`${name},`, ({ step }) => steps[step] ?? [{ text: 'Done.' }]))
}

/** Creates a person who is alone with agents in a space. */
async function room(world: World, name: string, { space = {}, agents = [{}] as object[] } = {}) {
  const ada = await world.person(`Ada of ${name}`)
  const bots = []
  for (const [index, input] of agents.entries()) bots.push(await world.agent(`Bot ${index} of ${name}`, input))
  const bot = bots[0] as { id: string; name: string }
  const spaceId = await world.space([ada.id, ...bots.map(({ id }) => id)], space)
  return { ada, bots, bot, spaceId, watches: { token: world.admin, spaceIds: [spaceId] } }
}

const sends = (world: World, token: string, spaceId: string, more: object = {}): Prepared['request'] => {
  const idempotencyKey = crypto.randomUUID()
  return (origin) =>
    world.ask(token, mutation('sendMessage'), { input: { spaceId, text: 'Go', idempotencyKey, ...more } }, origin)
}

const ASKING_TOOL = {
  name: 'pay',
  description: 'Pays.',
  inputSchema: { type: 'object' },
  execution: 'INTERNAL',
  approval: {},
}
const EXTERNAL_TOOL = { name: 'look', description: 'Looks.', inputSchema: { type: 'object' }, execution: 'EXTERNAL' }

/** Starts a run that waits for the result of a call, or for its approval. */
async function waitingCall(world: World, name: string, tool: object) {
  const { ada, bot, spaceId, watches } = await room(world, name, { agents: [{ tools: [tool] }] })
  plays(
    world,
    bot.name,
    [say('One moment.'), { toolCall: (tool as Read).name, input: { amount: 5 } }],
    [say('Thanks.')],
  )
  await world.working(async () => {
    await world.say(ada.token, spaceId, 'Pay')
  })
  const { prisma } = world.parley.app.platform.db
  const call = await until('the call waits', () =>
    prisma.toolCall.findFirst({ where: { agentId: bot.id, status: 'WAITING' } }),
  )
  return { ada, bot, spaceId, watches, toolCallId: call.id, runId: call.runId }
}

/** Sends a message and waits until an agent has answered it. */
async function answered(world: World, name: string) {
  const all = await room(world, name)
  plays(world, all.bot.name, [say('An answer.')])
  const { sentMessage, runs } = (await world.working(() =>
    world.say(all.ada.token, all.spaceId, 'A question.'),
  )) as Read
  return { ...all, messageId: sentMessage.id as string, runId: runs[0].id as string }
}

/** Creates a play whose request is one mutation. */
const ofPerson = (
  name: string,
  files: string[],
  prepare: (world: World, name: string) => Promise<Prepared>,
  isRepeatable = true,
): Play => ({ name, files, isRepeatable, prepare })

const CHANGES: Play[] = [
  ofPerson('a member is added', ['join-space.ts', 'publish-change.ts'], async (world, name) => {
    const { ada, spaceId, watches } = await room(world, name)
    const { id: entityId } = await world.agent(`New ${name}`)
    return { request: mutates(world, ada.token, 'addMember', { spaceId, entityId }), watches }
  }),
  ofPerson('a member with waiting events is removed', ['leave-space.ts', 'end-events.ts'], async (world, name) => {
    const agents = [{ mind: 'PERSISTENT' }]
    const { ada, bot, spaceId, watches } = await room(world, name, { agents })
    await world.say(ada.token, spaceId, 'Hello')
    return { request: mutates(world, ada.token, 'removeMember', { spaceId, entityId: bot.id }), watches }
  }),
  ofPerson('an agent with a queued run is deleted', ['delete-agent.ts', 'lifecycle.ts'], async (world, name) => {
    const { ada, bot, spaceId, watches } = await room(world, name)
    await world.say(ada.token, spaceId, 'Hello')
    return { request: mutates(world, world.admin, 'deleteAgent', { id: bot.id }), watches }
  }),
  ofPerson(
    'a space is created',
    ['create-space.ts'],
    async (world, name) => {
      const ada = await world.person(name)
      const bot = await world.agent(`Bot of ${name}`)
      return { request: mutates(world, ada.token, 'createSpace', { name, memberIds: [bot.id] }) }
    },
    false,
  ),
  ofPerson('a space is renamed', ['update-space.ts'], async (world, name) => {
    const { ada, spaceId, watches } = await room(world, name)
    return { request: mutates(world, ada.token, 'updateSpace', { id: spaceId, name: 'Another' }), watches }
  }),
  ofPerson('a space with a queued run is deleted', ['delete-space.ts'], async (world, name) => {
    const { ada, spaceId } = await room(world, name)
    await world.say(ada.token, spaceId, 'Hello')
    return { request: mutates(world, ada.token, 'deleteSpace', { id: spaceId }) }
  }),
  ofPerson('a message is edited and answered again', ['edit-message.ts', 'message-access.ts'], async (world, name) => {
    const { ada, messageId, watches } = await answered(world, name)
    const input = { messageId, text: 'Another question.', retryRuns: true }
    return { request: mutates(world, ada.token, 'editMessage', input), watches }
  }),
  ofPerson('a message is deleted', ['delete-message.ts', 'derived-texts.ts'], async (world, name) => {
    const { ada, messageId, watches } = await answered(world, name)
    return { request: mutates(world, ada.token, 'deleteMessage', { messageId }), watches }
  }),
  ofPerson('a person reacts', ['react.ts'], async (world, name) => {
    const { ada, messageId, watches } = await answered(world, name)
    return { request: mutates(world, ada.token, 'react', { messageId, emoji: '👍' }), watches }
  }),
  ofPerson('a person joins by a link', ['join-links.ts'], async (world, name) => {
    const { ada, spaceId, watches } = await room(world, name)
    const created = await world.ask(ada.token, mutation('createJoinLink', 'joinLink { url }'), { input: { spaceId } })
    const bob = await world.person(`Bob of ${name}`)
    const code = created.joinLink.url.split('/join/')[1]
    return { request: mutates(world, bob.token, 'joinSpace', { code }), watches }
  }),
  ofPerson(
    'a space is copied',
    ['fork-space.ts'],
    async (world, name) => {
      const { ada, spaceId } = await answered(world, name)
      return { request: mutates(world, ada.token, 'forkSpace', { spaceId }) }
    },
    false,
  ),
  ofPerson(
    'a step of a run is repeated',
    ['rerun-step.ts'],
    async (world, name) => {
      const { runId } = await answered(world, name)
      return { request: mutates(world, world.admin, 'rerunStep', { runId, step: 0 }) }
    },
    false,
  ),
  ofPerson(
    'a failed run is retried',
    ['retry.ts'],
    async (world, name) => {
      const { ada, bot, spaceId, watches } = await room(world, name)
      plays(world, bot.name, [{ error: 'The provider is broken.', status: 400 }])
      const message = (await world.working(() => world.say(ada.token, spaceId, 'Hello'))) as Read
      plays(world, bot.name, [say('At last.')])
      return { request: mutates(world, world.admin, 'retryRun', { runId: message.runs[0].id }), watches }
    },
    false,
  ),
  ofPerson('a waiting run is stopped', ['stop-run.ts', 'recover-messages.ts'], async (world, name) => {
    const { runId, watches } = await waitingCall(world, name, { ...ASKING_TOOL, visible: true })
    return { request: mutates(world, world.admin, 'stopRun', { runId }), watches }
  }),
  ofPerson('a service triggers an agent', ['trigger-agent.ts'], async (world, name) => {
    const bot = await world.agent(name)
    const input = { agentId: bot.id, serviceName: 'CI', payload: { ok: true }, idempotencyKey: name }
    return { request: mutates(world, world.admin, 'triggerAgent', input) }
  }),
  ofPerson('a call is claimed', ['decide-call.ts'], async (world, name) => {
    const { ada, toolCallId, watches } = await waitingCall(world, name, { ...ASKING_TOOL, visible: true })
    return { request: mutates(world, ada.token, 'claimToolCall', { toolCallId }), watches }
  }),
  ofPerson('a call is approved', ['decide-call.ts'], async (world, name) => {
    const { ada, toolCallId, watches } = await waitingCall(world, name, { ...ASKING_TOOL, visible: true })
    return { request: mutates(world, ada.token, 'decideToolCall', { toolCallId, approve: true }), watches }
  }),
  ofPerson('a call is denied', ['decide-call.ts', 'settle-call.ts'], async (world, name) => {
    const { ada, toolCallId, watches } = await waitingCall(world, name, { ...ASKING_TOOL, visible: true })
    return { request: mutates(world, ada.token, 'decideToolCall', { toolCallId, approve: false }), watches }
  }),
  ofPerson('a result is submitted', ['settle-call.ts'], async (world, name) => {
    const { toolCallId, watches } = await waitingCall(world, name, { ...EXTERNAL_TOOL, visible: true })
    return { request: mutates(world, world.admin, 'submitToolResult', { toolCallId, result: { seen: true } }), watches }
  }),
  ofPerson(
    'a standing grant is proposed',
    ['standing-grants.ts'],
    async (world, name) => {
      const { ada, toolCallId, watches } = await waitingCall(world, name, { ...ASKING_TOOL, visible: true })
      const input = { toolCallId, expiresInSeconds: 3600, maxCalls: 3 }
      return { request: mutates(world, ada.token, 'proposeStandingGrant', input), watches }
    },
    false,
  ),
  ofPerson('a person changes their name', ['update-human.ts'], async (world, name) => {
    const { ada, watches } = await room(world, name)
    return { request: mutates(world, ada.token, 'updateHuman', { id: ada.id, name: 'Another Ada' }), watches }
  }),
  ofPerson('a model provider is added', ['model-providers.ts'], async (world) => {
    const name = `p${crypto.randomUUID().slice(0, 8)}`
    const input = { name, api: 'openai-chat', baseUrl: 'http://127.0.0.1:9/v1', apiKey: 'secret' }
    return { request: mutates(world, world.admin, 'setModelProvider', input) }
  }),
  ofPerson('notification settings are changed', ['notification-settings.ts'], async (world, name) => {
    const ada = await world.person(name)
    return { request: mutates(world, ada.token, 'setNotificationSettings', { notifyAfterMinutes: 5 }) }
  }),
  ofPerson('the memory of an agent is reset', ['mind-control.ts'], async (world, name) => {
    const { bot } = await persistentAnswer(world, name)
    return { request: mutates(world, world.admin, 'resetConsciousness', { agentId: bot.id }) }
  }),
  ofPerson('an agent forgets a space', ['forget.ts'], async (world, name) => {
    const { bot, spaceId } = await persistentAnswer(world, name)
    return { request: mutates(world, world.admin, 'forgetSpace', { agentId: bot.id, spaceId }) }
  }),
  ofPerson(
    'a person is invited',
    ['invite.ts'],
    async (world, name) => {
      const { ada, spaceId } = await room(world, name)
      const email = `${crypto.randomUUID()}@example.com`
      return { request: mutates(world, ada.token, 'invite', { email, spaceIds: [spaceId] }) }
    },
    false,
  ),
  ofPerson('the effect of a message is previewed', ['preview-wakes.ts', 'rooms.ts'], async (world, name) => {
    const { ada, spaceId } = await room(world, name)
    const query = 'query ($id: ID!) { wakes(spaceId: $id) { id } }'
    return { request: (origin) => world.ask(ada.token, query, { id: spaceId }, origin) }
  }),
  ofPerson(
    'a file is uploaded',
    ['upload-file.ts'],
    async (world, name) => {
      const ada = await world.person(name)
      return { request: (origin) => upload(origin, ada.token, name) }
    },
    false,
  ),
  ofPerson('a file is uploaded in parts', ['resumable-uploads.ts'], async (world, name) => {
    const ada = await world.person(name)
    const headers = { authorization: `Bearer ${ada.token}`, 'tus-resumable': '1.0.0' }
    const first = await fetch(`${world.parley.origin}/files/tus`, {
      method: 'POST',
      headers: { ...headers, 'upload-length': '5', 'upload-metadata': `filename ${btoa('a.txt')}` },
    })
    const at = first.headers.get('location') ?? ''
    return {
      async request(origin) {
        const url = new URL(new URL(at, origin).pathname, origin)
        const head = await fetch(url, { method: 'HEAD', headers })
        const offset = head.headers.get('upload-offset') ?? '0'
        if (offset === '5') return
        const type = { 'content-type': 'application/offset+octet-stream', 'upload-offset': offset }
        await sent(
          fetch(url, { method: 'PATCH', headers: { ...headers, ...type }, body: 'hello'.slice(Number(offset)) }),
        )
      },
    }
  }),
  ofPerson('a webhook delivers', ['receive-webhook.ts'], async (world, name) => {
    const bot = await world.agent(name)
    const selection = 'secret webhook { id }'
    const input = { agentId: bot.id, serviceName: 'CI' }
    const { secret, webhook } = await world.ask(world.admin, mutation('createWebhook', selection), { input })
    const [at, body] = [new Date(), '{"ok":true}']
    const headers = {
      'content-type': 'application/json',
      'webhook-id': name.replaceAll(' ', '_'),
      'webhook-timestamp': String(Math.floor(at.getTime() / 1000)),
      'webhook-signature': new Webhook(secret).sign(name.replaceAll(' ', '_'), at, body),
    }
    return {
      request: (origin) => sent(fetch(`${origin}/hooks/agents/${webhook.id}`, { method: 'POST', headers, body })),
    }
  }),
  ofPerson('a client converses with an agent', ['conversations.ts'], async (world, name) => {
    const ada = await world.person(name)
    const bot = await world.agent(`Bot of ${name}`)
    plays(world, bot.name, [say('An answer.')])
    const headers = { authorization: `Bearer ${ada.token}`, 'content-type': 'application/json' }
    const body = JSON.stringify({
      threadId: name,
      runId: name,
      messages: [{ id: name, role: 'user', content: 'Hi' }],
      tools: [],
      context: [],
      state: {},
      forwardedProps: {},
    })
    return {
      async request(origin) {
        const response = await fetch(`${origin}/ag-ui/agents/${bot.id}`, { method: 'POST', headers, body })
        if (!response.ok) throw new Error(`${response.status} ${await response.text()}`)
        await response.body?.cancel()
      },
    }
  }),
]

async function sent(response: Promise<Response>): Promise<Response> {
  const got = await response
  if (!got.ok) throw new Error(`${got.url}\nanswered ${got.status} ${await got.text()}`)
  return got
}

function upload(origin: string, token: string, name: string): Promise<Response> {
  const headers = { authorization: `Bearer ${token}`, 'content-type': 'text/plain', 'x-file-name': 'a.txt' }
  const form = new FormData()
  form.append('file', new Blob([`The text of ${name}.`], { type: 'text/plain' }), 'a.txt')
  return sent(
    fetch(`${origin}/files`, { method: 'POST', headers: { authorization: headers.authorization }, body: form }),
  )
}

/** Creates a persistent agent that has answered a message. */
async function persistentAnswer(world: World, name: string) {
  const all = await room(world, name, { agents: [{ mind: 'PERSISTENT' }] })
  thinks(world, all.bot.name, [say('A thought.')])
  await world.working(async () => {
    await world.say(all.ada.token, all.spaceId, 'Think')
  })
  return all
}

/** Scripts a persistent agent that enters the space of its first event. */
function thinks(world: World, name: string, ...steps: ModelAction[][]): void {
  world.parley.models.script(
    forAgent(`${name},`, (request) => {
      const all = [[{ toolCall: 'enter_space', input: { spaceId: spaceIn(request) } }], ...steps]
      return inboxIn(request).includes('TOOL_RESULT') ? [{ text: 'Done.' }] : (all[request.step] ?? [{ text: 'Done.' }])
    }),
  )
}

/** The plays in which the crashing process also executes the runs that the request starts. */
const RUNS: Play[] = [
  {
    name: 'a message is answered',
    files: ['send-message.ts', 'post.ts', 'wake.ts', 'end-run.ts', 'loop-limits.ts', 'outcome-changes.ts'],
    worker: true,
    isRepeatable: true,
    async prepare(world, name) {
      const { ada, bot, spaceId, watches } = await room(world, name)
      plays(world, bot.name, [say('An answer.')])
      return { request: sends(world, ada.token, spaceId), watches }
    },
  },
  {
    name: 'a persistent agent answers',
    files: ['end-cycle.ts'],
    worker: true,
    isRepeatable: true,
    async prepare(world, name) {
      const { ada, bot, spaceId, watches } = await room(world, name, { agents: [{ mind: 'PERSISTENT' }] })
      thinks(world, bot.name, [say('A thought.')])
      return { request: sends(world, ada.token, spaceId), watches }
    },
  },
  {
    name: 'agents of a chain delegate and mention each other',
    files: ['chain.ts', 'delegate.ts', 'delegated-trigger.ts', 'delegation-checks.ts'],
    worker: true,
    isRepeatable: true,
    async prepare(world, name) {
      const space = { routing: 'MENTION_CHAIN' }
      const { ada, bots, spaceId, watches } = await room(world, name, { space, agents: [{}, {}, {}] })
      const [one, two, three] = bots as { id: string; name: string }[]
      if (one === undefined || two === undefined || three === undefined) throw new Error('three agents')
      plays(world, one.name, [delegates(two)])
      plays(world, two.name, [say('Three?'), mentions(three, 'Help')])
      plays(world, three.name, [say('Here.')])
      return { request: sends(world, ada.token, spaceId), watches }
    },
  },
  {
    name: 'an agent skips',
    // A skip is an ordinary end of a run, and has no job that publishes its outcome (outcome-changes.ts).
    losesEvents: ['MessageUpdated'],
    files: ['end-run.ts'],
    worker: true,
    isRepeatable: true,
    async prepare(world, name) {
      const { ada, bots, spaceId, watches } = await room(world, name, { agents: [{}, {}] })
      for (const bot of bots) plays(world, bot.name, [skips('Not for me.')])
      return { request: sends(world, ada.token, spaceId), watches }
    },
  },
  {
    name: 'an agent asks another one and waits for the reply',
    files: ['reply-waits.ts', 'settle-wait.ts'],
    worker: true,
    isRepeatable: true,
    async prepare(world, name) {
      const agents = [{ toolset: 'SPACE_TOOLS' }, { toolset: 'SPACE_TOOLS' }]
      const { ada, bots, spaceId, watches } = await room(world, name, { agents })
      const [one, two] = bots as { id: string; name: string }[]
      if (one === undefined || two === undefined) throw new Error('two agents')
      await world.ask(world.admin, mutation('updateSpace'), {
        input: { id: spaceId, routing: 'ADMIN', adminAgentId: one.id },
      })
      const question = {
        spaceId,
        text: 'A question?',
        mention: two.id,
        wait: { for: [{ type: 'agent' }], timeout: 60 },
      }
      plays(world, one.name, [{ toolCall: 'sendSpaceMessage', input: question }])
      plays(world, two.name, [{ toolCall: 'sendSpaceMessage', input: { spaceId, text: 'An answer.' } }])
      return { request: sends(world, ada.token, spaceId), watches }
    },
  },
  {
    name: 'a plan fires',
    files: ['fire-plan.ts'],
    worker: true,
    isRepeatable: false,
    async prepare(world, name) {
      const bot = await world.agent(name)
      const input = { agentId: bot.id, name: 'Daily', instruction: 'Go.', schedule: { cron: '0 0 1 1 *' } }
      const { plan } = await world.ask(world.admin, mutation('createPlan', 'plan { id }'), { input })
      return { request: mutates(world, world.admin, 'runPlanNow', { id: plan.id }) }
    },
  },
  {
    name: 'an approved call is executed, and its run continues',
    files: ['await-answer.ts', 'decide-call.ts', 'settle-call.ts'],
    worker: true,
    isRepeatable: true,
    async prepare(world, name) {
      const { ada, toolCallId, watches } = await waitingCall(world, name, { ...ASKING_TOOL, visible: true })
      return { request: mutates(world, ada.token, 'decideToolCall', { toolCallId, approve: true }), watches }
    },
  },
  {
    name: 'a call begins to wait for a service',
    files: ['await-answer.ts'],
    worker: true,
    isRepeatable: true,
    async prepare(world, name) {
      const { ada, bot, spaceId, watches } = await room(world, name, { agents: [{ tools: [EXTERNAL_TOOL] }] })
      plays(world, bot.name, [say('Wait.'), { toolCall: 'look', input: {} }])
      return { request: sends(world, ada.token, spaceId), watches }
    },
  },
  {
    name: 'a standing grant covers a call',
    files: ['use-grant.ts'],
    worker: true,
    isRepeatable: true,
    async prepare(world, name) {
      const { ada, bot, spaceId, toolCallId, watches } = await waitingCall(world, name, {
        ...ASKING_TOOL,
        visible: true,
      })
      const input = { toolCallId, expiresInSeconds: 3600, maxCalls: 3 }
      await world.working(() => world.ask(ada.token, mutation('proposeStandingGrant'), { input }))
      plays(world, bot.name, [{ toolCall: 'pay', input: { amount: 5 } }], [say('Paid.')])
      return { request: sends(world, ada.token, spaceId), watches }
    },
  },
  {
    name: 'a mentioned person is notified',
    files: ['notify.ts', 'open-notices.ts', 'mail-notices.ts'],
    worker: true,
    isRepeatable: true,
    async prepare(world, name) {
      const ada = await world.person(`Ada of ${name}`)
      const bob = await world.person(`Bob of ${name}`, { email: `${crypto.randomUUID()}@example.com` })
      const spaceId = await world.space([ada.id, bob.id])
      await world.ask(bob.token, mutation('setNotificationSettings'), { input: { mail: true, notifyAfterMinutes: 0 } })
      const watches = { token: world.admin, spaceIds: [spaceId] }
      return { request: sends(world, ada.token, spaceId, { mentionedIds: [bob.id] }), watches }
    },
  },
  {
    name: 'a tool returns a file',
    files: ['keep-files.ts'],
    worker: true,
    isRepeatable: true,
    async prepare(world, name) {
      const tool = { name: 'load', description: 'Loads.', inputSchema: { type: 'object' }, execution: 'HTTP' }
      const agents = [{ tools: [{ ...tool, url: world.fileUrl }] }]
      const { ada, bot, spaceId, watches } = await room(world, name, { agents })
      plays(world, bot.name, [{ toolCall: 'load', input: {} }], [say('Loaded.')])
      return { request: sends(world, ada.token, spaceId), watches }
    },
  },
]

export const PLAYS: Play[] = [...CHANGES, ...RUNS]

/** Flows whose crashes other tests cover, because their requests need another server. */
export const COVERED_ELSEWHERE: Readonly<Record<string, string>> = {
  'embed-texts.ts': 'test/jobs/dying-processes.test.ts',
  'remote-tasks.ts': 'test/faults/remote-agent-kills.test.ts',
  'task-pushes.ts': 'test/doors/a2a-push.test.ts',
  'sign-in-by-oidc.ts': 'test/access/oidc.test.ts',
  'mail-links.ts': 'test/mail/mail-links.test.ts',
}
