import fastCheck from 'fast-check'
import { describe, expect, test } from 'vitest'
import { createSecretBox, SealBrokenError } from '../../src/platform/secret-box.ts'

const box = createSecretBox('a secret key of thirty-two characters')

describe('the secret box', () => {
  test('opens any text that it sealed', () => {
    fastCheck.assert(
      fastCheck.property(fastCheck.string({ unit: 'grapheme' }), fastCheck.string(), (text, context) => {
        expect(box.open(box.seal(text, context), context)).toBe(text)
      }),
    )
  })

  test('reveals nothing of the text, and seals the same text differently each time', () => {
    const sealed = box.seal('Bearer abcdef')
    expect(sealed).toMatch(/^v1\.[A-Za-z0-9_-]+$/)
    expect(Buffer.from(sealed.slice(3), 'base64url').toString('latin1')).not.toContain('Bearer')
    expect(box.seal('Bearer abcdef')).not.toBe(sealed)
  })

  test('is opened by every box with the same key, and by none with another', () => {
    const sealed = box.seal('text')
    expect(createSecretBox('a secret key of thirty-two characters').open(sealed)).toBe('text')
    expect(() => createSecretBox('another key').open(sealed)).toThrow(SealBrokenError)
  })

  test('refuses a sealed value that was moved to another row', () => {
    const sealed = box.seal('text', 'agt_1')
    expect(() => box.open(sealed, 'agt_2')).toThrow(SealBrokenError)
    expect(() => box.open(sealed)).toThrow(SealBrokenError)
  })

  test('refuses a value that was modified, truncated or never sealed', () => {
    const sealed = box.seal('text')
    const bytes = Buffer.from(sealed.slice(3), 'base64url')
    for (let index = 0; index < bytes.length; index += 1) {
      const changed = Buffer.from(bytes)
      changed[index] = (changed[index] as number) ^ 1
      expect(() => box.open(`v1.${changed.toString('base64url')}`)).toThrow(SealBrokenError)
    }
    for (const broken of ['', 'v1', 'v1.', 'text', sealed.slice(0, 20), sealed.replace('v1', 'v2')]) {
      expect(() => box.open(broken)).toThrow(SealBrokenError)
    }
  })
})
