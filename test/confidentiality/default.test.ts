import { describe, expect, test } from 'vitest'
import { RULE_STACKS } from '../support/application.ts'
import { playScenarios, type Stage } from '../support/stage.ts'

const SPACE = `mutation ($input: CreateSpaceInput!) { createSpace(input: $input) { ... on CreateSpacePayload { space { confidential } } } }`

describe.each(RULE_STACKS)('with PARLEY_CONFIDENTIAL_SPACES, on the %s stack', (stack) => {
  let stage: Stage
  playScenarios(stack, (opened) => ({ stage } = opened), { PARLEY_CONFIDENTIAL_SPACES: 'true' })

  test('a new space with one or two humans is confidential by default', async () => {
    const people = await Promise.all(['Alice', 'Bob', 'Cem'].map((name) => stage.person(name)))
    const agent = await stage.bot('Ada')
    const isConfidential = async (humans: number, more: object = {}) => {
      const memberIds = [...people.slice(0, humans), agent].map(({ id }) => id)
      const input = { name: 'A space', routing: 'BROADCAST', memberIds, ...more }
      return (await stage.ask(stage.admin, SPACE, { input })).space.confidential
    }
    const made = [await isConfidential(0), await isConfidential(1), await isConfidential(2), await isConfidential(3)]
    expect(made).toEqual([false, true, true, false])
    expect(await isConfidential(1, { confidential: false })).toBe(false)
    expect(await isConfidential(3, { confidential: true })).toBe(true)
  })
})
