import { EventEmitter } from 'node:events'
import { Duplex, type Writable } from 'node:stream'
import { setImmediate } from 'node:timers/promises'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import * as ws from 'ws'
import { binaryOf } from '../../src/server/sharing/frame.ts'
import { createOutlet } from '../../src/server/sharing/outlet.ts'
import { createRounds } from '../../src/server/sharing/rounds.ts'

// Its types leave it out.
const { Receiver } = ws as unknown as { Receiver: new (options: { isServer: boolean }) => Writable }

const RUNS = Number(process.env['OUTLET_RUNS'] ?? 300)

/** A client that takes what it is sent when it likes to, and an outlet to it. */
function setUp() {
  const texts: string[] = []
  const receiver = new Receiver({ isServer: false })
  receiver.on('message', (data) => texts.push(String(data)))
  let isStuck = false
  let release: (() => void) | null = null
  const transport = new Duplex({
    read() {},
    write(chunk, _, done) {
      const take = () => receiver.write(chunk, () => {}) || true
      if (!isStuck) {
        take()
        done()
        return
      }
      release = () => {
        take()
        done()
      }
    },
  })
  const events = new EventEmitter()
  const socket = Object.assign(events, {
    OPEN: 1,
    readyState: 1,
    ping: () => void transport.write(Buffer.from([0x89, 0])),
  })
  const world = { full: 0, isAlone: true }
  const outlet = createOutlet(socket as unknown as ws.WebSocket, transport, {
    rounds: createRounds(),
    onFull() {
      world.full += 1
      socket.readyState = 2
    },
    isAlone: () => world.isAlone,
  })
  return {
    world,
    texts,
    outlet,
    stick() {
      isStuck = true
    },
    /** Takes what it was sent, or with `all` everything that comes. */
    take(all: boolean) {
      if (all) isStuck = false
      const taken = release
      release = null
      taken?.()
    },
    close() {
      socket.readyState = 3
      transport.destroy()
      events.emit('close')
    },
  }
}

type Action =
  | { type: 'send'; text: string }
  | { type: 'sendAll'; head: string; rests: string[]; times: number }
  | { type: 'stick' | 'take' | 'takeAll' | 'wait' | 'flush' }
  | { type: 'alone'; isAlone: boolean }

const text = fc.oneof(
  { weight: 5, arbitrary: fc.string({ unit: 'grapheme', minLength: 1, maxLength: 10 }) },
  { weight: 1, arbitrary: fc.constantFrom(...[120, 126, 65_536, 100_000].map((length) => 'é'.repeat(length / 2))) },
)
const of = <T extends string>(...types: T[]) => fc.constantFrom(...types)
const action: fc.Arbitrary<Action> = fc.oneof(
  { weight: 3, arbitrary: fc.record({ type: of('send'), text }) },
  {
    weight: 6,
    arbitrary: fc.record({
      type: of('sendAll'),
      head: text,
      rests: fc.array(text, { minLength: 1, maxLength: 20 }),
      times: fc.constantFrom(1, 1, 1, 30),
    }),
  },
  { weight: 4, arbitrary: fc.record({ type: of('stick', 'take', 'take', 'takeAll', 'wait', 'wait', 'flush') }) },
  { weight: 1, arbitrary: fc.record({ type: of('alone'), isAlone: fc.boolean() }) },
)

type Client = ReturnType<typeof setUp>

/** What an outlet was given, and how much of it is awaited. */
interface Given {
  texts: string[]
  awaited: number
}

async function act({ world, outlet, stick, take }: Client, given: Given, one: Action): Promise<void> {
  switch (one.type) {
    case 'send':
      given.texts.push(one.text)
      given.awaited += 1
      return outlet.send(one.text, () => {
        given.awaited -= 1
      })
    case 'sendAll':
      for (let time = 0; time < one.times; time++) {
        given.texts.push(...one.rests.map((rest) => one.head + rest))
        outlet.sendAll(binaryOf(one.head), one.rests.map(binaryOf))
      }
      return
    case 'alone':
      world.isAlone = one.isAlone
      return
    case 'stick':
      return stick()
    case 'flush':
      return outlet.flush()
    case 'wait':
      await setImmediate()
      return
    default:
      return take(one.type === 'takeAll')
  }
}

describe('an outlet', () => {
  async function play(actions: Action[], isTorn: boolean): Promise<void> {
    const client = setUp()
    const { world, outlet, texts } = client
    const given: Given = { texts: [], awaited: 0 }
    for (const one of actions) await act(client, given, one)
    let isDrained = false
    void outlet.drained().then(() => {
      isDrained = true
    })
    if (isTorn) client.close()
    for (let turn = 0; turn < 10; turn++) {
      client.take(true)
      await setImmediate()
    }
    const isWhole = !isTorn && world.full === 0
    expect(texts).toEqual(isWhole ? given.texts : given.texts.slice(0, texts.length))
    if (world.full > 0) client.close()
    await setImmediate()
    const left = { awaited: given.awaited, waiting: outlet.waiting(), isDrained }
    expect(left).toEqual({ awaited: 0, waiting: 0, isDrained: true })
  }

  test('hands over everything in its order and once, or gives its client up, and then waits for nothing', async () => {
    const property = fc.asyncProperty(fc.array(action, { maxLength: 40 }), fc.boolean(), play)
    await fc.assert(property, { numRuns: RUNS })
  })
})
