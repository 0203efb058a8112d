import { readFileSync } from 'node:fs'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createParleyClient, type ParleyClient } from '../support/parley-client.ts'
import { type ParleyProcess, startParley } from '../support/parley-process.ts'
import type { Json } from './deployed.ts'

const tour = readFileSync(path.resolve(import.meta.dirname, '../../docs/tour.md'), 'utf8')
const blocks = [...tour.matchAll(/```graphql\n(.*?)```/gs)].map(([, text]) => text ?? '')
/** Returns the operation with that name in docs/tour.md. */
const shown = (name: string) =>
  blocks.find((text) => new RegExp(`^\\w+ ${name}\\b`).test(text)) ?? `docs/tour.md has no ${name}`

describe('docs/tour.md, word for word, with the demo model', () => {
  let parley: ParleyProcess
  const clients: ParleyClient[] = []
  const as = (token: string) => {
    const client = createParleyClient({ origin: parley.origin, token })
    clients.push(client)
    return client
  }
  /** Sends an operation of the tour with some words replaced. Returns its fields, none of which may be an error. */
  async function run(
    client: ParleyClient,
    name: string,
    variables: object = {},
    words: Record<string, string> = {},
  ): Promise<Json> {
    const text = Object.entries(words).reduce((before, [from, to]) => before.replace(from, to), shown(name))
    const answer = await client.ask<Json>(text, variables)
    expect(JSON.stringify(answer)).not.toMatch(/"errors":|\{"message":/)
    return answer.data
  }

  beforeAll(async () => {
    parley = await startParley()
  }, 60_000)
  afterAll(async () => {
    await Promise.all(clients.map((client) => client.close()))
    await parley?.stop()
  })

  test('works as described', { timeout: 90_000 }, async () => {
    const admin = as(parley.adminToken)
    const people = await run(admin, 'People')
    const agentId = people.createAgent.agent.id
    const { createAccessToken } = await run(admin, 'Token', { humanId: people.createHuman.human.id })
    const ada = as(createAccessToken.secret)

    const watch = (spaceId: string) => ada.subscribe<Json, object>(shown('Watch'), { spaceId })
    const makeSpace = async (name: string) => {
      const { createSpace } = await run(ada, 'Space', { agentId }, { Kitchen: name })
      return createSpace.space.id as string
    }
    const kitchenId = await makeSpace('Kitchen')
    const kitchen = watch(kitchenId)
    await kitchen.first(is('SpaceSnapshot'))
    const { sendMessage } = await run(ada, 'Speak', { spaceId: kitchenId })
    const answer = await kitchen.first(is('MessageFinished'))
    expect(answer.spaceMessages.message).toMatchObject({
      sender: { name: 'Iris' },
      text: expect.stringContaining('Ada'),
    })
    expect(kitchen.seen.some(is('MessageTextDelta'))).toBe(true)
    const why = await run(admin, 'Why', { runId: sendMessage.runs[0].id })
    expect(why.run.internals.steps.edges[0].node.instructions).toContain('You are the host here.')

    const garden = watch(await makeSpace('Garden'))
    await garden.first(is('SpaceSnapshot'))
    const service = await run(admin, 'Service', { agentId })
    await curl({ '<the secret>': service.createAccessToken.secret, '<the id>': agentId })
    const warning = await garden.first(is('MessageFinished'))
    expect(warning.spaceMessages.message).toMatchObject({
      sender: { name: 'Iris' },
      text: expect.stringMatching(/frost/i),
    })

    await run(admin, 'Equip', { agentId })
    await run(
      ada,
      'Speak',
      { spaceId: kitchenId },
      { 'Hello! Who is here?': 'Iris, please order supplies for the barbecue.' },
    )
    const { spaceMessages: asked } = await kitchen.first(
      ({ spaceMessages: { message } }: Json) => message?.status === 'REQUIRES_ACTION',
    )
    const { toolCall } = asked.message.parts.at(-1)
    expect(toolCall).toMatchObject({ toolName: 'order_supplies', status: 'WAITING' })
    await run(ada, 'Approve', { toolCallId: toolCall.id })
    await kitchen.first(
      ({ spaceMessages: { part } }: Json) => part?.toolCall?.id === toolCall.id && part.toolCall.status === 'DONE',
    )
  })

  /** Sends the request of the curl command in the tour. */
  async function curl(words: Record<string, string>): Promise<void> {
    const command = /curl -s [^`]*/.exec(tour)?.[0] ?? ''
    const text = Object.entries(words).reduce((before, [from, to]) => before.replace(from, to), command)
    const headers = [...text.matchAll(/-H '([^:]+): ([^']+)'/g)].map(
      ([, name, value]) => [name, value] as [string, string],
    )
    const body = /-d '([^']+)'/.exec(text)?.[1] ?? ''
    const response = await fetch(`${parley.origin}/graphql`, { method: 'POST', headers, body })
    expect(await response.json()).toMatchObject({
      data: { triggerAgent: { run: { id: expect.stringMatching(/^run_/) } } },
    })
  }
})

const is =
  (type: string) =>
  ({ spaceMessages }: Json): boolean =>
    spaceMessages.__typename === type
