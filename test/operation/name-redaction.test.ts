import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { sourceNameOf } from '../../src/agents/inbox-source.ts'
import { inboxMessage, urgentMessage } from '../../src/context/inbox-message.ts'
import type { InboxEvent } from '../../src/generated/prisma/client.ts'
import { newId } from '../../src/lib/ids.ts'
import { oneLine } from '../../src/lib/json.ts'
import { applyEdits, createNameRedaction } from '../../src/operation/name-redaction.ts'

const id = newId('hum')
const [agentId, spaceId, callId] = [newId('agt'), newId('spc'), newId('tcl')]
const at = new Date(0)

/** Display names as people type them, and as attackers would choose them. */
const ODD_NAMES = [
  'nora',
  'bob',
  'tom',
  'robert',
  'frank',
  'uli',
  'Ann "A" Lee',
  'a\\b',
  'two\nlines',
  '$& $1',
  '(.*)+',
  '[x] (id: y): z',
  '李 🦊',
  'Only Ann',
  'denied by x',
]
const names = fc
  .oneof(fc.constantFrom(...ODD_NAMES), fc.string({ unit: 'grapheme', minLength: 1, maxLength: 20 }))
  .filter((name) => name.trim() !== '')

const redactionOf = (name: string, messages = false, isByName = true) =>
  createNameRedaction({ id, name, messages }, { isByName, isHere: () => isByName })

/** Generates texts by others that include the name in each form that the server writes. */
const wordsAbout = (name: string) =>
  fc.oneof(
    fc.string({ unit: 'grapheme' }),
    fc.constantFrom(
      name,
      `${name} is a human: only agents can be woken.`,
      `\n- [Room (id: ${spaceId})] ${name} (human): "hi"`,
      `${JSON.stringify(name)} (human)`,
      `approved by ${JSON.stringify(name)}`,
      `\\${name.slice(1)} in "Room"`,
      `${name} (id: ${id})`,
    ),
  )

const eventOf = (type: string, payload: object) => ({ type, payload, wokenBy: null }) as unknown as InboxEvent

/** Returns the server's texts about a human with this name, each with the same text by others. */
function eventsWith(name: string, words: string[]): InboxEvent[] {
  const [first = '', second = '', third = ''] = words
  const quoted = JSON.stringify(oneLine(name))
  return [
    eventOf('SPACE_MESSAGE', {
      spaceId,
      spaceName: first,
      senderId: id,
      senderName: name,
      senderKind: 'HUMAN',
      content: second,
    }),
    eventOf('SPACE_MESSAGE', {
      spaceId,
      spaceName: second,
      senderId: agentId,
      senderName: 'Agent of theirs',
      senderKind: 'AGENT',
      content: first,
    }),
    eventOf('PLAN', { name: third, instruction: oneLine(first) }),
    eventOf('SERVICE', { name: second, payload: { id, name: first, sender: third, error: first } }),
    eventOf('TOOL_RESULT', {
      toolName: 'pay',
      toolCallId: callId,
      result: {
        sender: first,
        error: { message: `Denied by ${quoted}: ${JSON.stringify(second)}. It was not carried out.` },
      },
      decisions: `approved by ${quoted} (${JSON.stringify(first)}), "Somebody else" (${JSON.stringify(second)})`,
    }),
    eventOf('TOOL_RESULT', {
      toolName: 'read_messages',
      toolCallId: callId,
      result: { messages: [{ sender: name, type: 'human', text: first }] },
    }),
  ]
}

const cases = names.chain((name) =>
  fc.tuple(fc.constant(name), fc.array(wordsAbout(name), { minLength: 3, maxLength: 3 })),
)

describe('the name of an erased human', () => {
  test('is replaced in prompts wherever the server wrote it, and not in the words of others', () => {
    fc.assert(
      fc.property(cases, ([name, words]) => {
        for (const prompt of [(events: InboxEvent[]) => inboxMessage(events, at), urgentMessage]) {
          const value = [
            { role: 'user', content: prompt(eventsWith(name, words)) },
            { role: 'assistant', content: words.join(name) },
          ]
          const expected = [{ role: 'user', content: prompt(eventsWith('Erased', words)) }, value[1]]
          expect(applyEdits(value, redactionOf(name).modelMessages(value))).toEqual(expected)
        }
      }),
    )
  })

  test('is replaced in stored events, and not in the words of others', () => {
    fc.assert(
      fc.property(cases, ([name, words]) => {
        const [before, after] = [eventsWith(name, words), eventsWith('Erased', words)].map((all) =>
          all.map(({ payload }) => payload),
        )
        expect(before?.map((payload) => applyEdits(payload, redactionOf(name).payload(payload)))).toEqual(after)
      }),
    )
  })

  test('is the only change to any JSON value, and a second redaction changes nothing', () => {
    fc.assert(
      fc.property(names, fc.jsonValue(), (name, value) => {
        const redaction = redactionOf(name)
        const document = { sender: name, type: 'human', more: value, triggerSummary: `${oneLine(name)} in "Room"` }
        const edits = redaction.toolOutput('get_my_runs', document)
        const done = applyEdits(document, edits) as typeof document
        expect(done).toMatchObject({ sender: 'Erased', triggerSummary: 'Erased in "Room"' })
        expect(applyEdits({ ...done, sender: name, triggerSummary: document.triggerSummary }, edits)).toEqual(done)
        expect(redaction.toolOutput('get_my_runs', done).filter(({ text }) => text !== 'Erased')).toEqual([])
        expect(redaction.toolOutput('of_somebody_else', document)).toEqual([])
      }),
    )
  })

  test.each<[string, unknown, unknown]>([
    ['beside its id', { senderId: id, sender: 'Zeb' }, { senderId: id, sender: 'Erased' }],
    ['beside its id, though it was another then', { id, name: 'Zebediah' }, { id, name: 'Erased' }],
    ['not beside another id', { senderId: agentId, sender: 'Zeb' }, { senderId: agentId, sender: 'Zeb' }],
    ['not of an agent of that name', { sender: 'Zeb', type: 'agent' }, { sender: 'Zeb', type: 'agent' }],
    [
      'of a reply',
      { reply: { entityId: id, entityName: 'Zeb', text: 'Zeb' } },
      { reply: { entityId: id, entityName: 'Erased', text: 'Zeb' } },
    ],
    [
      'in a refusal',
      { error: { message: 'what you know comes from "Zeb"; Zeb, who is in "Team", may not hear it.' } },
      { error: { message: 'what you know comes from "Zeb"; Erased, who is in "Team", may not hear it.' } },
    ],
    [
      'in a refusal of the present version',
      { error: { message: 'You have read content of "Zeb"; Zeb, who is in "Team", may not see it.' } },
      { error: { message: 'You have read content of "Zeb"; Erased, who is in "Team", may not see it.' } },
    ],
    [
      'in a summary of a think cycle',
      { triggerSummary: `1 event: a message from "Zeb" (human) in "Team" (id: ${spaceId})` },
      { triggerSummary: `1 event: a message from "Erased" (human) in "Team" (id: ${spaceId})` },
    ],
  ])('is replaced %s', (_, before, after) => {
    expect(applyEdits(before, redactionOf('Zeb').toolOutput('get_my_runs', before))).toEqual(after)
  })

  test('is replaced in a prompt that names the source of a message', () => {
    const event = (name: string) => eventOf('SPACE_MESSAGE', { spaceId, spaceName: 'Team', senderName: name })
    const [before, after] = ['Zeb "Z"', 'Erased'].map((name) => [
      { role: 'user', content: `INBOX (left out):\n- ${sourceNameOf(event(name))}` },
    ])
    expect(applyEdits(before, redactionOf('Zeb "Z"').modelMessages(before))).toEqual(after)
  })

  test('stays if another person has the same name', () => {
    const value = [{ role: 'user', content: inboxMessage(eventsWith('Zeb', ['a', 'b', 'c']), at) }]
    expect(redactionOf('Zeb', true, false).modelMessages(value)).toEqual([])
  })

  test('is replaced together with the reasons that this person gave, and no others', () => {
    const told = {
      decisions: 'approved by "Zeb" ("for Zeb"), "Eve" ("for Zeb"), with another input than yours: {"by":"Zeb"}',
    }
    expect(redactionOf('Zeb', true).payload(told)).toEqual([
      {
        path: ['decisions'],
        text: 'approved by "Erased", "Eve" ("for Zeb"), with another input than yours: {"by":"Zeb"}',
      },
    ])
    expect(redactionOf('Zeb', true).toolError('Denied by "Zeb": "never". It was not carried out.')).toBe(
      'Denied by "Erased". It was not carried out.',
    )
  })
})
