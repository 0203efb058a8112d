import { type DemoCall, type DemoEvent, type DemoReading, type DemoRole, isFailure } from './demo-reading.ts'

/**
 * The scene that the console's *Try it* plays with the demo model: a forecast with a table, a question about the
 * forecast, an order that people approve, and a closing sentence. An agent's instructions contain its role. Without a
 * role, the demo model answers as `demo-behaviour.ts` describes.
 */

type MessageEvent = Extract<DemoEvent, { type: 'message' }>

const FORECAST = `Yes, frost from three in the morning:

| time | temperature | sky |
|---|--:|---|
| 21:00 | 4.2 °C | clear |
| 00:00 | 1.1 °C | clear |
| 03:00 | −0.6 °C | frost |
| 05:00 | **−1.8 °C** | hard frost |

Cover the **tomatoes** and the young beans. The kale likes it.`
const QUESTION = 'The fleece in the shed covers half of the beds. Who orders the rest?'

const ASKS_FOR_WEATHER = /\b(frost|weather|forecast|cold|freeze|freezing|tonight)\b/i
const ASKS_FOR_ORDER = /\b(order|buy)\b/i
const ORDER_TOOL = 'order_fleece'
const PRICE_OF_A_ROLL = 11.9
const NUMBERS = ['one', 'two', 'three', 'four', 'five', 'six', 'seven', 'eight', 'nine', 'ten']

const isForecast = ({ kind, text }: MessageEvent['message']) => kind === 'agent' && text.includes('°C')

/**
 * Whether a role answers a message that is not addressed to its agent. `meansAnother` tells whether the message is
 * addressed to another agent.
 */
export function isCue(role: DemoRole, { message }: MessageEvent, meansAnother: boolean): boolean {
  if (role === 'skeptic') return isForecast(message)
  if (message.kind === 'agent' || meansAnother) return false
  return ASKS_FOR_ORDER.test(message.text) === (role === 'buyer')
}

/** The reason that a role gives for not answering. */
export function silenceOf(role: DemoRole): string {
  return {
    forecaster: 'I report the weather and welcome people; this needs neither.',
    skeptic: 'I ask only where a forecast leaves something open.',
    buyer: 'I only order what people ask for.',
  }[role]
}

/** Returns the calls with which a role prepares its answer; null if the scene has none for the event. */
export function sceneCalls({ role, tools }: DemoReading, { message }: MessageEvent) {
  if (role !== 'buyer' || !tools.has(ORDER_TOOL) || !ASKS_FOR_ORDER.test(message.text)) return null
  const rolls = rollsIn(message.text)
  const priceInEuros = Math.round(rolls * PRICE_OF_A_ROLL * 100) / 100
  return [{ toolName: ORDER_TOOL, input: { item: 'Garden fleece, 10 m × 2 m', rolls, price_in_euros: priceInEuros } }]
}

/** Returns a role's reply to a message; null if the scene has no reply. */
export function sceneText({ role, calls }: DemoReading, { message }: MessageEvent): string | null {
  if (role === 'forecaster' && message.kind === 'human' && ASKS_FOR_WEATHER.test(message.text)) return FORECAST
  if (role === 'skeptic' && isForecast(message)) return QUESTION
  const order = calls.find(({ toolName }) => toolName === ORDER_TOOL)
  return role === 'buyer' && order !== undefined ? outcomeOf(order) : null
}

function outcomeOf(order: DemoCall): string {
  if (isFailure(order)) return 'I ordered nothing.'
  const { rolls } = order.input
  const count = typeof rolls === 'number' ? rolls : 2
  return `Ordered: ${NUMBERS[count - 1] ?? count} ${count === 1 ? 'roll' : 'rolls'} of fleece, here before dusk.`
}

function rollsIn(text: string): number {
  const [digits] = /\b[1-9]\d?\b/.exec(text) ?? []
  if (digits !== undefined) return Number(digits)
  const named = NUMBERS.findIndex((word) => new RegExp(`\\b${word}\\b`, 'i').test(text))
  return named < 0 ? 2 : named + 1
}
