import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { DEFAULT_STACK } from '../support/application.ts'
import { runsOf } from '../support/effort.ts'
import type { ModelAction, ModelRequest } from '../support/model-server-script.ts'
import type { TestServer } from '../support/served.ts'
import { sayIn } from '../support/space-tools.ts'
import { type Named, type Person, playScenarios, promptOf, type Read, type Stage } from '../support/stage.ts'
import { until } from '../support/until.ts'

const MESSAGES = `query ($id: ID!) {
  space(id: $id) { messages(last: 100) { edges { node { id text status sender { kind } threadRoot { id } } } } } }`
const AGENTS = [
  { name: 'Ada', toolset: 'ACTIVE_SPACE', mind: 'STATELESS' },
  { name: 'Kit', toolset: 'SPACE_TOOLS', mind: 'STATELESS' },
  { name: 'Mia', toolset: 'ACTIVE_SPACE', mind: 'PERSISTENT' },
]
/** A person's question, which is unique. */
const QUESTION = /"text":"(question \d+\.)"/
const EVENT = /\(id: (spc_\w+)\)(?:, thread on (msg_\w+))?\] Ann \(human\): "(question \d+\.)"/g
const seed = Date.now() % 1_000_000

/** Whether each message replies to an earlier one, and to which. */
const randomTalk = fc.array(fc.record({ replies: fc.boolean(), to: fc.nat(100) }), { minLength: 5, maxLength: 9 })

const DONE: ModelAction[] = [{ text: 'Done.' }]

/** A persistent agent answers each question in its inbox in the thread that the inbox names. */
function actionsOfMind({ messages }: ModelRequest): ModelAction[] {
  const at = messages.findLastIndex(({ role, text }) => role === 'user' && text.startsWith('INBOX'))
  const events = [...(messages[at]?.text ?? '').matchAll(EVENT)]
  const step = messages.slice(at).filter(({ role }) => role === 'assistant').length
  if (events.length === 0 || step > 1) return DONE
  if (step === 0) return [{ toolCall: 'enter_space', input: { spaceId: events[0]?.[1] } }]
  return events.map(([, , thread, question]) => ({
    toolCall: 'send_message',
    input: { text: `Mia: ${question}`, replyTo: thread ?? 'none' },
  }))
}

describe('random talks in threads', () => {
  let parley: TestServer
  let stage: Stage
  playScenarios(DEFAULT_STACK, (opened) => ({ parley, stage } = opened), { PARLEY_MAX_ROOT_RUNS: '6' })

  /** The questions in order: the ids of their messages, and of the first messages of their threads. */
  interface Asked {
    ids: string[]
    roots: (string | null)[]
  }

  async function askAll(ann: Person, room: Named, talk: { replies: boolean; to: number }[]): Promise<Asked> {
    const asked: Asked = { ids: [], roots: [] }
    for (const [index, { replies, to }] of talk.entries()) {
      const target = replies && index > 0 ? to % index : null
      const more = target === null ? {} : { replyToId: asked.ids[target] }
      const { sentMessage } = await stage.say(ann, room, `question ${index}.`, more)
      asked.ids.push(sentMessage.id)
      asked.roots.push(target === null ? null : (asked.roots[target] ?? asked.ids[target] ?? null))
    }
    return asked
  }

  const numbersIn = (text: string) => [...text.matchAll(/question (\d+)\./g)].map(([, number]) => Number(number))

  async function expectOrder(talk: { replies: boolean; to: number }[]): Promise<void> {
    const ann = await stage.person('Ann')
    const agents = []
    for (const { name, ...input } of AGENTS) agents.push(await stage.bot(name, input))
    const room = await stage.space('Room', [ann, ...agents], { routing: 'BROADCAST' })
    /** The prompts of stateless runs, each with the number of its question. */
    const prompts: { question: number; prompt: string }[] = []
    parley.models.reset()
    parley.models.script((request) => {
      if (request.instructions.includes('You are Mia')) return actionsOfMind(request)
      const prompt = promptOf(request)
      const question = QUESTION.exec(prompt.split('\n')[1] ?? '')?.[1]
      if (question === undefined || request.step > 0) return DONE
      prompts.push({ question: numbersIn(question)[0] ?? -1, prompt })
      return request.instructions.includes('You are Ada')
        ? [{ toolCall: 'send_message', input: { text: `Ada: ${question}` } }]
        : [sayIn(room.id, `Kit: ${question}`)]
    })
    const { ids, roots } = await askAll(ann, room, talk)
    const isAnswer = ({ sender, status }: Read) => sender.kind === 'AGENT' && status === 'COMPLETE'
    const answers = async (): Promise<Read[]> =>
      (await stage.ask(ann.client, MESSAGES, { id: room.id })).messages.edges
        .map(({ node }: Read) => node)
        .filter(isAnswer)
    await until('all questions are answered', async () => (await answers()).length === talk.length * AGENTS.length)
    for (const { text, threadRoot } of await answers())
      expect([text, threadRoot?.id ?? null]).toEqual([text, roots[numbersIn(text)[0] ?? -1]])
    for (const { question, prompt } of prompts) {
      const shown = numbersIn(prompt)
      expect(shown).toContain(question)
      for (const number of shown) expect([ids[number], roots[number]]).toContain(roots[question])
    }
  }

  test(`each answer is posted in the thread of its question, and no prompt shows another thread (seed ${seed})`, async () => {
    await fc.assert(fc.asyncProperty(randomTalk, expectOrder), {
      numRuns: runsOf({ usual: 2, nightly: 40 }),
      seed,
      endOnFailure: true,
    })
  }, 900_000)
})
