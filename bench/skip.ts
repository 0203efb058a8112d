import { estimateTokens } from '../src/lib/token-estimate.ts'
import { startApplication, type TestApplication } from '../test/support/application.ts'
import type { ModelAction, ModelRequest } from '../test/support/model-server-script.ts'
import { inboxIn, interjectionIn, spaceIn, thinkingOn } from '../test/support/thinking.ts'
import type { Benchmark } from './support/figures.ts'

const MEMBERS = 10
const MESSAGES = 50
/** Every fifth message concerns the agent. */
const RELEVANT_EVERY = 5
const CHATTER = 'has anybody seen the numbers of last week, and do we still meet on Thursday to talk about them?'

interface Spent {
  tokens: number
  /** The tokens of the first cycle that skips, when the consciousness is still empty. */
  skipInput: number
  skipTools: number
  skipOutput: number
}

/** Estimates the input tokens of a model request: its messages and its tools. */
function tokensOf({ body }: ModelRequest): number {
  return estimateTokens(body.messages) + estimateTokens(body.tools ?? [])
}

const toolTokensOf = ({ body }: ModelRequest): number => estimateTokens(body.tools ?? [])

/** Plays the conversation. The agent replies to messages that mention it, and `otherwise` decides what it does about the rest. */
async function play(otherwise: (request: ModelRequest) => ModelAction[], tools?: string[]): Promise<Spent> {
  const parley = await startApplication({ stack: 'embedded' })
  const thinking = thinkingOn(parley)
  const humans = await Promise.all(Array.from({ length: MEMBERS - 1 }, (_, n) => parley.human(`Human ${n + 1}`)))
  const phases = tools === undefined ? [] : [{ fromStep: 0, activeTools: tools, toolChoice: 'AUTO' as const }]
  const agent = await thinking.bot('FrontendBot', {}, { phases })
  const [first] = humans
  if (first === undefined) throw new Error('a room without humans')
  const space = await parley.space(first, [agent.id])
  for (const human of humans.slice(1)) {
    await parley.app.domain.members.add(parley.admin, { spaceId: space.id, entityId: human.id })
  }
  const outputs: { request: ModelRequest; tokens: number }[] = []
  parley.models.script((request) => {
    const actions = inboxIn(request).includes('FrontendBot,') ? answerTo(request) : otherwise(request)
    outputs.push({ request, tokens: estimateTokens(actions) })
    return actions
  })
  for (let n = 0; n < MESSAGES; n++) {
    const name = n % RELEVANT_EVERY === RELEVANT_EVERY - 1 ? 'FrontendBot' : `Human ${(n % 8) + 2}`
    await parley.send(first, space.id, `${name}, ${CHATTER}`)
    await thinking.rest(agent)
  }
  await parley.close()
  return spentOn(outputs)
}

function spentOn(outputs: { request: ModelRequest; tokens: number }[]): Spent {
  const [first] = outputs
  return {
    tokens: outputs.reduce((sum, { request, tokens }) => sum + tokensOf(request) + tokens, 0),
    skipInput: first === undefined ? Number.NaN : tokensOf(first.request),
    skipTools: first === undefined ? Number.NaN : toolTokensOf(first.request),
    skipOutput: first?.tokens ?? Number.NaN,
  }
}

function answerTo(request: ModelRequest): ModelAction[] {
  const generations: ModelAction[][] = [
    [{ toolCall: 'enter_space', input: { spaceId: spaceIn(request) } }],
    [{ toolCall: 'send_message', input: { text: 'Yes: they are in the report, and Thursday stands.' } }],
  ]
  return generations[request.step] ?? [{ text: 'I answered.' }]
}

const skips = (): ModelAction[] => [{ toolCall: 'skip', input: { reason: 'Not addressed to me.' } }]
const looks = (request: ModelRequest): ModelAction[] =>
  request.step === 0 ? [{ toolCall: 'enter_space', input: { spaceId: spaceIn(request) } }] : [{ text: 'Not for me.' }]

/** Estimates the tokens of a preview of two waiting events, as the prompt of a later step contains it. */
async function previewTokens(): Promise<number> {
  const parley: TestApplication = await startApplication({ stack: 'embedded' })
  const thinking = thinkingOn(parley)
  const human = await parley.human('Husam')
  const agent = await thinking.bot('Ada')
  const space = await parley.space(human, [agent.id])
  const arrived = Promise.withResolvers<void>()
  parley.models.script((request) => {
    if (!inboxIn(request).includes('Begin')) return [{ text: 'Read.' }]
    return request.step === 0
      ? [{ gate: arrived.promise }, { toolCall: 'get_my_runs', input: {} }]
      : [{ text: 'Done.' }]
  })
  await parley.send(human, space.id, 'Begin')
  await parley.models.request((request) => inboxIn(request).includes('Begin'))
  await parley.send(human, space.id, 'Actually cancel that, I changed my mind about all of it')
  await parley.send(human, space.id, 'The deadline moved to Friday')
  arrived.resolve()
  await thinking.rest(agent)
  const preview = parley.models.requests.map(interjectionIn).find((text) => text !== null) ?? ''
  await parley.close()
  return estimateTokens(preview)
}

export const skip: Benchmark = {
  question: `What does \`skip\` save an agent in a space of ${MEMBERS} in which one of ${RELEVANT_EVERY} of ${MESSAGES} messages is for it? Tokens are counted in the requests as they were sent.`,
  async run() {
    const withSkip = await play(skips)
    const without = await play(looks, ['enter_space', 'send_message', 'read_messages', 'get_my_runs', 'stop_run'])
    const saved = (1 - withSkip.tokens / without.tokens) * 100
    return [
      { what: 'tokens with `skip`', value: withSkip.tokens / 1000, unit: 'k' },
      { what: 'tokens when it looks into the space and says nothing instead', value: without.tokens / 1000, unit: 'k' },
      { what: 'saved', value: saved, unit: '%' },
      { what: 'saved', value: 80, unit: '%', source: 'seed 004' },
      { what: 'input of a skip, nothing in the consciousness', value: withSkip.skipInput, unit: 'tokens' },
      {
        what: 'of it instructions and inbox, without the definitions of tools',
        value: withSkip.skipInput - withSkip.skipTools,
        unit: 'tokens',
      },
      {
        what: 'input of a skip: system prompt and inbox',
        value: 1000,
        unit: 'tokens',
        source: 'seed 004: 500 to 1,000',
      },
      { what: 'output of a skip', value: withSkip.skipOutput, unit: 'tokens' },
      { what: 'output of a skip', value: 20, unit: 'tokens', source: 'seed 004' },
      { what: 'a preview of two events', value: await previewTokens(), unit: 'tokens' },
      { what: 'a preview', value: 50, unit: 'tokens', source: 'seed 004' },
    ]
  },
}
