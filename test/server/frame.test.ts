import type { Writable } from 'node:stream'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import * as ws from 'ws'
import { binaryOf, frameOf } from '../../src/server/sharing/frame.ts'

// Its types leave it out.
const { Receiver } = ws as unknown as { Receiver: new (options: { isServer: boolean }) => Writable }

/** What `ws` reads from the bytes of frames. */
function read(bytes: string): Promise<string[]> {
  const texts: string[] = []
  const receiver = new Receiver({ isServer: false })
  receiver.on('message', (data) => texts.push(String(data)))
  return new Promise((resolve, reject) => {
    receiver.on('error', reject)
    receiver.end(Buffer.from(bytes, 'latin1'), () => resolve(texts))
  })
}

describe('a frame of two pieces', () => {
  test.each([0, 1, 125, 126, 127, 65_535, 65_536, 70_000])('holds a text of %i bytes', async (length) => {
    const [first, second] = ['x'.repeat(Math.min(length, 50)), 'y'.repeat(Math.max(0, length - 50))]
    expect(await read(frameOf(first, second))).toEqual([first + second])
  })

  test('stands before and behind others, whatever is in it', async () => {
    const texts = fc.array(fc.tuple(fc.string({ unit: 'grapheme' }), fc.string({ unit: 'grapheme' })), { minLength: 1 })
    await fc.assert(
      fc.asyncProperty(texts, async (pairs) => {
        const frames = pairs.map(([first, second]) => frameOf(binaryOf(first), binaryOf(second)))
        expect(await read(frames.join(''))).toEqual(pairs.map(([first, second]) => first + second))
      }),
    )
  })
})
