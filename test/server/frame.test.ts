import type { Writable } from 'node:stream'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import * as ws from 'ws'
import { frameOf } from '../../src/server/sharing/frame.ts'

// Its types leave it out.
const { Receiver } = ws as unknown as { Receiver: new (options: { isServer: boolean }) => Writable }

/** What `ws` reads from the bytes of frames. */
function read(bytes: Buffer): Promise<string[]> {
  const texts: string[] = []
  const receiver = new Receiver({ isServer: false })
  receiver.on('message', (data) => texts.push(String(data)))
  return new Promise((resolve, reject) => {
    receiver.on('error', reject)
    receiver.end(bytes, () => resolve(texts))
  })
}

describe('a frame of two pieces', () => {
  test.each([0, 1, 125, 126, 127, 65_535, 65_536, 70_000])('holds a text of %i bytes', async (length) => {
    const [first, second] = ['x'.repeat(Math.min(length, 50)), 'y'.repeat(Math.max(0, length - 50))]
    expect(await read(frameOf(Buffer.from(first), Buffer.from(second)))).toEqual([first + second])
  })

  test('stands before and behind others, whatever is in it', async () => {
    const texts = fc.array(fc.tuple(fc.string({ unit: 'grapheme' }), fc.string({ unit: 'grapheme' })), { minLength: 1 })
    await fc.assert(
      fc.asyncProperty(texts, async (pairs) => {
        const frames = pairs.map(([first, second]) => frameOf(Buffer.from(first), Buffer.from(second)))
        expect(await read(Buffer.concat(frames))).toEqual(pairs.map(([first, second]) => first + second))
      }),
    )
  })
})
