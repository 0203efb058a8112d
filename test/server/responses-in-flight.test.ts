import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { createResponsesInFlight, type Sending } from '../../src/server/responses-in-flight.ts'

const LARGEST = 1000

/** Creates a response that is not sent until the test allows it. */
function responseTo(client: string) {
  const listeners: (() => void)[] = []
  const sent = () => {
    for (const listener of listeners.splice(0)) listener()
  }
  const cutOff = vi.fn(sent)
  const state = { waitingBytes: 0 }
  const sending: Sending = {
    onSent: (listener: () => void) => void listeners.push(listener),
    waitingBytes: () => state.waitingBytes,
    cutOff,
  }
  return { client, sent, cutOff, state, sending }
}

describe('responses that clients have not read', () => {
  beforeEach(() => void vi.useFakeTimers())
  afterEach(() => void vi.useRealTimers())

  test('are four of the largest size; the next one waits until one is sent', async () => {
    const inFlight = createResponsesInFlight(LARGEST)
    const four = ['a', 'b', 'c', 'd'].map(responseTo)
    for (const { client, sending } of four) await inFlight.hold(client, LARGEST, sending)
    let isHeld = false
    const fifth = inFlight.hold('e', LARGEST, responseTo('e').sending).then(() => {
      isHeld = true
    })
    await vi.advanceTimersByTimeAsync(1000)
    expect(isHeld).toBe(false)
    four[0]?.sent()
    await vi.advanceTimersByTimeAsync(10)
    await fifth
    expect(isHeld).toBe(true)
  })

  test('count individually, even if one client has several at once', async () => {
    const inFlight = createResponsesInFlight(LARGEST)
    for (let time = 0; time < 10; time++) {
      const { sending, sent } = responseTo('a')
      await inFlight.hold('a', LARGEST / 2, sending)
      await inFlight.hold('a', LARGEST / 2, sending)
      sent()
    }
  })

  test('do not delay the first shorter response of somebody else', async () => {
    const inFlight = createResponsesInFlight(LARGEST)
    for (const { client, sending } of ['a', 'b', 'c', 'd'].map(responseTo))
      await inFlight.hold(client, LARGEST, sending)
    await inFlight.hold('e', LARGEST / 8, responseTo('e').sending)
    const second = inFlight.hold('e', LARGEST / 8, responseTo('e').sending)
    expect(await Promise.race([second, vi.advanceTimersByTimeAsync(500).then(() => 'waits')])).toBe('waits')
  })

  test('are cut off after a second without reading while another response waits; slow readers are not', async () => {
    const MIB = 1024 * 1024
    const inFlight = createResponsesInFlight(8 * MIB)
    const [slow, ...others] = ['a', 'b', 'c', 'd'].map(responseTo)
    for (const { client, state, sending } of [slow!, ...others]) {
      state.waitingBytes = 8 * MIB
      await inFlight.hold(client, 8 * MIB, sending)
    }
    const fifth = inFlight.hold('e', 8 * MIB, responseTo('e').sending)
    for (let n = 0; n < 16; n += 1) {
      slow!.state.waitingBytes -= 32 * 1024
      await vi.advanceTimersByTimeAsync(125)
    }
    await fifth
    expect(slow!.cutOff).not.toHaveBeenCalled()
    expect(others.every(({ cutOff }) => cutOff.mock.calls.length > 0)).toBe(true)
  })

  test('are cut off after five seconds while another response waits, even those beyond the budget', async () => {
    const inFlight = createResponsesInFlight(LARGEST)
    const four = ['a', 'b', 'c', 'd'].map(responseTo)
    for (const { client, sending } of four) await inFlight.hold(client, LARGEST, sending)
    const mutation = responseTo('a')
    inFlight.watch(mutation.sending)
    await vi.advanceTimersByTimeAsync(10_000)
    // No other response is waiting.
    expect([...four, mutation].some(({ cutOff }) => cutOff.mock.calls.length > 0)).toBe(false)
    const fifth = inFlight.hold('e', LARGEST, responseTo('e').sending)
    await vi.advanceTimersByTimeAsync(1000)
    await fifth
    expect([...four, mutation].every(({ cutOff }) => cutOff.mock.calls.length === 1)).toBe(true)
  })
})
