import { GraphQLError } from 'graphql'
import { describe, expect, test } from 'vitest'
import type { Viewer } from '../../src/access/viewer.ts'
import { identityOf, type PersonalAnswers } from '../../src/delivery/answer.ts'
import { answersOfField } from '../support/field-answers.ts'

const viewerOf = (id: string): Viewer => ({ scope: 'HUMAN', id, tokenId: null, expiresAt: null })

/**
 * Returns payloads of an event with each viewer's own name, and how often each was executed. The given one fails the first
 * time.
 */
function tellingNames(failing: string[] = []) {
  const executed = new Map<string, number>()
  const toFail = new Set(failing)
  const mine = async (_: object, { viewer }: { viewer: Viewer }) => {
    const { id } = viewer
    executed.set(id, (executed.get(id) ?? 0) + 1)
    await new Promise((resolve) => setImmediate(resolve))
    if (toFail.delete(id)) throw new GraphQLError('gone for a moment', { extensions: { code: 'NOT_FOUND' } })
    return id
  }
  const answers = answersOfField('mine', viewerOf('first'))
  const entry = {}
  /** Returns a viewer's payload and the size of its batch; undefined if the viewer must execute alone. */
  async function ask(id: string, of: object | null = entry) {
    const outcome = (await answers.answer(
      { event: { mine }, shareKey: of },
      () => [viewerOf(id)],
      0,
    )) as PersonalAnswers
    const own = outcome.get(identityOf(viewerOf(id)))
    return { together: outcome.size, told: own && 'text' in own ? JSON.parse(own.text).data.mine : own }
  }
  return { ask, executed }
}

describe('a lookup with a personal result, when others request the same lookup', () => {
  test('is batched with them, and each gets its own result', async () => {
    const { ask, executed } = tellingNames()
    const names = ['a', 'b', 'c', 'd', 'e']
    const [first, ...others] = await Promise.all(['first', ...names].map((id) => ask(id)))
    expect(first).toEqual({ together: 1, told: 'first' })
    expect(others).toEqual(names.map((told) => ({ together: 5, told })))
    for (const name of names) expect(executed.get(name)).toBe(1)
  })

  test('does not wait for a lookup that failed, which is retried alone', async () => {
    const { ask, executed } = tellingNames(['c'])
    const names = ['a', 'b', 'c', 'd', 'e']
    const [, ...others] = await Promise.all(['first', ...names].map((id) => ask(id)))
    expect(others).toEqual(names.map((id) => ({ together: 4, told: id === 'c' ? undefined : id })))
    for (const name of names) expect(executed.get(name)).toBe(1)
    expect(await ask('c', null)).toEqual({ together: 1, told: 'c' })
  })

  test('is retried with them if the whole batch failed', async () => {
    const names = ['a', 'b', 'c']
    const { ask, executed } = tellingNames(names)
    const [, ...others] = await Promise.all(['first', ...names].map((id) => ask(id)))
    expect(others).toEqual(names.map((told) => ({ together: 3, told })))
    for (const name of names) expect(executed.get(name)).toBe(2)
  })
})
