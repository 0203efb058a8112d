import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { changesBetween, partsOf, sectionsOf, textOf, wordsOfChanges } from '../../web/inspect/prompt.ts'

const user = (text: string) => ({ role: 'user', content: text })
const prompt = (over: object) => ({ instructions: 'Be kind.', messages: [], tools: [], ...over })

describe('a prompt for people', () => {
  test('has parts with a title: text, calls, results, errors and files', () => {
    const content = [
      { type: 'text', text: 'Let me see.' },
      { type: 'tool-call', toolCallId: 'a', toolName: 'order', input: { item: 'tea' } },
      { type: 'tool-result', toolCallId: 'a', toolName: 'order', output: { type: 'json', value: { done: true } } },
      { type: 'tool-result', toolCallId: 'b', toolName: 'order', output: { type: 'error-text', value: 'Too dear.' } },
      { type: 'file', mediaType: 'image/png', data: 'x'.repeat(1000) },
      { type: 'unheard-of', number: 1 },
    ]
    expect(partsOf({ role: 'assistant', content })).toEqual([
      { title: 'text', text: 'Let me see.', value: undefined },
      { title: 'calls order', text: null, value: { item: 'tea' } },
      { title: 'result of order', text: null, value: { done: true } },
      { title: 'error of order', text: 'Too dear.', value: undefined },
      { title: 'file', text: 'image/png', value: undefined },
      { title: 'unheard-of', text: null, value: content.at(-1) },
    ])
    expect(textOf({ role: 'assistant', content: content.slice(0, 2) })).toBe(
      'Let me see.\n[calls order] {\n  "item": "tea"\n}',
    )
  })

  test('is shown in any form', () => {
    fc.assert(
      fc.property(fc.anything(), (content) => {
        for (const { text, value } of partsOf({ role: 'user', content })) expect(text ?? value).toBe(text ?? value)
      }),
    )
  })

  test('has the sections of its instructions, which together are the instructions', () => {
    const text = 'You are Iris.\n\nBe kind.\n\nYOUR SPACES:\n- "Garden"\n\nDECISIONS: (by people)\n- order: no'
    expect(sectionsOf(text)).toEqual([
      { title: null, text: 'You are Iris.\n\nBe kind.' },
      { title: 'YOUR SPACES', text: '- "Garden"' },
      { title: 'DECISIONS', text: '- order: no' },
    ])
  })

  test('is compared with the prompt of the previous step', () => {
    const before = prompt({ messages: [user('a'), user('b')], tools: ['order', 'pay'] })
    const now = prompt({ instructions: 'Be brief.', messages: [user('a'), user('c'), user('d')], tools: ['order'] })
    const changes = changesBetween(before, now)
    expect(changes).toMatchObject({ same: 1, removed: [user('b')], added: [user('c'), user('d')] })
    expect(changes.instructions?.split('\n').filter((line) => /^[+-]\w/.test(line))).toEqual([
      '-Be kind.',
      '+Be brief.',
    ])
    expect(wordsOfChanges(changes)).toBe(
      'Compared with the previous step: 2 new messages, 1 removed message, changed instructions, without pay.',
    )
    expect(wordsOfChanges(changesBetween(before, before))).toBe('Same as in the previous step.')
  })

  test('is not compared if the comparison would take too long', () => {
    const lines = (word: string) => Array.from({ length: 5000 }, (_, at) => `${word} ${at}`).join('\n')
    const { instructions } = changesBetween(prompt({ instructions: lines('a') }), prompt({ instructions: lines('b') }))
    expect(instructions).toBe('')
  })
})
