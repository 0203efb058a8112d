import { readFile, writeFile } from 'node:fs/promises'
import { type ParleyProcess, startParley } from '../../test/support/parley-process.ts'
import { createPeople, openServices } from './costs.ts'
import { SEND_MESSAGE } from './operations.ts'
import { residentMebibytesOf } from './stack.ts'

/** Three bytes per character: a hundred of these texts exceed the maximum size of a response. */
const LONGEST = '漢'.repeat(32_000)
const MESSAGES = 100
const ROUNDS = 5
const WARM_UP = 200
const CALM_MS = 3000
const TEXTS = `query ($id: ID!) { space(id: $id) { messages(last: ${MESSAGES}) { edges { node { id text } } } } }`

/**
 * Returns the memory of an idle server process, and its maximum while several people read responses of the largest size, in
 * MiB.
 */
export async function memoryOfLargestResponses(atATime: number): Promise<{ idle: number; peak: number }> {
  const services = await openServices()
  const writer = await startParley({ settings: services.settings })
  const { people, spaceId } = await createPeople(writer, atATime)
  for (let n = 0; n < MESSAGES; n++) await people[0]?.client.send(SEND_MESSAGE, { spaceId, text: LONGEST })
  await Promise.all(people.map(({ client }) => client.close()))
  await writer.stop()

  // Measure another process, whose memory was not used to write the messages.
  const parley = await startParley({ settings: services.settings })
  const post = (token: string, query: string) =>
    fetch(`${parley.origin}/graphql`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', authorization: `Bearer ${token}` },
      body: JSON.stringify({ query, variables: { id: spaceId } }),
    }).then((response) => response.arrayBuffer())
  for (let n = 0; n < WARM_UP; n++) await post(people[n % atATime]?.token ?? '', '{ viewer { id } }')
  await new Promise((resolve) => setTimeout(resolve, CALM_MS))
  const idle = await residentMebibytesOf(parley.pid)
  let peak = 0
  for (let round = 0; round < ROUNDS; round++) {
    await forgetPeakOf(parley)
    await Promise.all(people.map(({ token }) => post(token, TEXTS)))
    peak = Math.max(peak, await peakMebibytesOf(parley))
  }
  await parley.stop()
  await services.close()
  return { idle, peak }
}

/** Resets the recorded peak of the memory. Linux only. */
const forgetPeakOf = ({ pid }: ParleyProcess) => writeFile(`/proc/${pid}/clear_refs`, '5')

async function peakMebibytesOf({ pid }: ParleyProcess): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8')
  return Number(/^VmHWM:\s+(\d+)/m.exec(status)?.[1]) / 1024
}
