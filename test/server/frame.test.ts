import type { Writable } from 'node:stream'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import * as ws from 'ws'
import { binaryOf, framesOf } from '../../src/server/sharing/frame.ts'

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
    expect(await read(framesOf(first, [second]))).toEqual([first + second])
  })

  test('stands before and behind others, whatever is in them', async () => {
    const text = fc.string({ unit: 'grapheme' })
    const receivers = fc.array(text, { minLength: 1, maxLength: 5 })
    await fc.assert(
      fc.asyncProperty(receivers, fc.array(text, { minLength: 1 }), async (firsts, seconds) => {
        const common = seconds.map(binaryOf)
        for (const first of firsts) {
          expect(await read(framesOf(binaryOf(first), common))).toEqual(seconds.map((second) => first + second))
        }
      }),
    )
  })
})
