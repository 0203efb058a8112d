import { GraphQLError } from 'graphql'
import { describe, expect, test } from 'vitest'
import type { Viewer } from '../../src/access/viewer.ts'
import { identityOf, type PersonalAnswers } from '../../src/server/streams/answer.ts'
import { answersOfField } from '../support/field-answers.ts'

const viewerOf = (id: string): Viewer => ({ scope: 'HUMAN', id, tokenId: null, expiresAt: null })

/** Answers of an event that tells each its own name, and how often each was executed for; who is to fail fails the first time. */
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
  /** What a viewer is told, and by how many answers it came; undefined where it is to ask again. */
  async function ask(id: string, of: object | null = entry) {
    const outcome = (await answers.answer({ event: { mine }, of }, () => [viewerOf(id)], 0)) as PersonalAnswers
    const own = outcome.get(identityOf(viewerOf(id)))
    return { together: outcome.size, told: own && 'text' in own ? JSON.parse(own.text).data.mine : own }
  }
  return { ask, executed }
}

describe('who waits for an answer of its own that others wait for too', () => {
  test('is answered together with them, each with what is its own', async () => {
    const { ask, executed } = tellingNames()
    const names = ['a', 'b', 'c', 'd', 'e']
    const [first, ...others] = await Promise.all(['first', ...names].map((id) => ask(id)))
    expect(first).toEqual({ together: 1, told: 'first' })
    expect(others).toEqual(names.map((told) => ({ together: 5, told })))
    for (const name of names) expect(executed.get(name)).toBe(1)
  })

  test('does not wait for one of them whose answer failed: that one asks again alone', async () => {
    const { ask, executed } = tellingNames(['c'])
    const names = ['a', 'b', 'c', 'd', 'e']
    const [, ...others] = await Promise.all(['first', ...names].map((id) => ask(id)))
    expect(others).toEqual(names.map((id) => ({ together: 4, told: id === 'c' ? undefined : id })))
    for (const name of names) expect(executed.get(name)).toBe(1)
    expect(await ask('c', null)).toEqual({ together: 1, told: 'c' })
  })

  test('is tried again with them where it failed for all', async () => {
    const names = ['a', 'b', 'c']
    const { ask, executed } = tellingNames(names)
    const [, ...others] = await Promise.all(['first', ...names].map((id) => ask(id)))
    expect(others).toEqual(names.map((told) => ({ together: 3, told })))
    for (const name of names) expect(executed.get(name)).toBe(2)
  })
})
