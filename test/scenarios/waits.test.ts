import { describe, expect, test } from 'vitest'
import { forAgent, type ModelAction, steps, when } from '../support/model-server-script.ts'
import type { TestServer } from '../support/served.ts'
import { sayIn } from '../support/space-tools.ts'
import { playScenarios, type Read, type Stage, wokenBy } from '../support/stage.ts'

const CONFIRM = {
  name: 'confirm',
  description: 'Asks a person to confirm.',
  inputSchema: { type: 'object', properties: { what: { type: 'string' } }, required: ['what'] },
  execution: 'SPACE',
  visible: true,
}
const CHART = { ...CONFIRM, name: 'showChart', description: 'Shows a chart.', execution: 'INTERNAL' }
const SUBMIT = `mutation ($input: SubmitToolResultInput!) {
  submitToolResult(input: $input) { __typename ... on SubmitToolResultPayload { toolCall { status } } ... on Error { message } }
}`
const STOP = `mutation ($input: StopRunInput!) {
  stopRun(input: $input) { __typename ... on StopRunPayload { run { status } } ... on Error { message } }
}`

describe('mentions on parts that wait, and messages that answer', () => {
  let parley: TestServer
  let stage: Stage

  playScenarios('embedded', (opened) => {
    parley = opened.parley
    stage = opened.stage
  })

  const show = (tool: string, spaceId: string, more: object = {}): ModelAction => ({
    toolCall: tool,
    input: { what: 'the budget', targetSpaceId: spaceId, ...more },
  })
  const kinds = ({ outcomes }: Read) => Object.fromEntries(outcomes.map(({ agent, kind }: Read) => [agent.name, kind]))

  async function openRoom() {
    const ann = await stage.person('Ann')
    const [ada, bob] = [await stage.bot('Ada', { tools: [CONFIRM, CHART] }), await stage.bot('Bob', { tools: [CHART] })]
    return { ann, ada, bob, room: await stage.space('Room', [ann, ada, bob]) }
  }

  describe('a mention on a part that waits', () => {
    test('wakes when the part is shown, and only once', async () => {
      const { ann, ada, bob, room } = await openRoom()
      parley.models.script(
        forAgent('Ada', when(wokenBy('Begin'), steps([show('confirm', room.id, { mention: bob.id })]))),
      )
      parley.models.script(forAgent('Bob', steps([sayIn(room.id, 'I see it.')])))
      await stage.say(ann, room, 'Begin')
      const [run] = await stage.endedRuns(bob, 1)
      const asked = (await stage.messagesIn(room))[1]
      expect(asked).toMatchObject({ status: 'REQUIRES_ACTION', mentionedAgent: { id: bob.id } })
      expect(run).toMatchObject({ status: 'COMPLETED', triggerMessage: { id: asked.id } })
      const input = { toolCallId: asked.parts[0].toolCall.id, result: 'yes' }
      expect((await stage.ask(ann.client, SUBMIT, { input })).__typename).toBe('SubmitToolResultPayload')
      await stage.endedRuns(ada, 1)
      expect((await stage.messagesIn(room))[1]).toMatchObject({ status: 'COMPLETE' })
      expect(await stage.runsOf(bob)).toHaveLength(1)
    })

    test('wakes also where an earlier part of the message waits, and the run is stopped then', async () => {
      const { ann, ada, bob, room } = await openRoom()
      const said = [show('confirm', room.id), sayIn(room.id, 'Look at this', { mention: bob.id })]
      parley.models.script(forAgent('Ada', when(wokenBy('Begin'), steps(said))))
      const { runs } = await stage.say(ann, room, 'Begin')
      await stage.endedRuns(bob, 1)
      await stage.ask(ann.client, STOP, { input: { runId: runs[0].id } })
      await stage.endedRuns(ada, 1)
      const asked = (await stage.messagesIn(room))[1]
      expect(kinds(asked)).toEqual({ Bob: 'RUN' })
    })
  })

  test('null is a left-out argument: nothing is refused, and nothing said twice', async () => {
    const { ann, ada, bob, room } = await openRoom()
    const filled = sayIn(room.id, 'Hello', { mention: null, wait: null })
    const asking = sayIn(room.id, 'Well?', {
      wait: { for: [{ type: 'entity', entityId: bob.id }], timeout: 0.1 },
    })
    const reading = { toolCall: 'readSpaceMessages', input: { spaceId: room.id, limit: null } }
    parley.models.script(forAgent('Ada', when(wokenBy('Begin'), steps([filled, reading], [asking]))))
    await stage.say(ann, room, 'Begin')
    const [run] = await stage.endedRuns(ada, 1)
    expect(run.toolCalls.map(({ status }: Read) => status)).toEqual(['DONE', 'DONE', 'DONE'])
    expect((await stage.messagesIn(room)).map(({ text, status }) => [text, status])).toEqual([
      ['Begin', 'COMPLETE'],
      ['Hello\n\nWell?', 'COMPLETE'],
    ])
  })
})
