import { MESSAGE_ONCE_EXTENSION } from '../../lib/a2a-extensions.ts'
import { cut, isObject, isTooDeep, type JsonObject, toJson } from '../../lib/json.ts'
import { digestOf } from '../../rules/approvals.ts'
import { ToolFailure } from '../tool.ts'

/** The fields of an agent card that Parley uses. */
export interface ReadCard {
  /** A digest of the whole card. */
  fingerprint: string
  name: string
  description: string
  version: string
  /** The URL of the agent's JSON-RPC interface. */
  url: string
  skills: string[]
  streams: boolean
  /** Whether a message takes effect only once if it is sent again with the same id. */
  deduplicates: boolean
}

const LONGEST_CARD_NAME = 200
const LONGEST_DESCRIPTION = 2000
const LONGEST_URL = 2048
const MOST_SKILLS = 50

/**
 * Reads an A2A 1.0 agent card.
 * @param hasHeaders whether requests contain credentials, which may be sent only to the origin of the card
 * @throws ToolFailure if the card lists no usable interface
 */
export function readCard(text: string, cardUrl: string, { hasHeaders }: { hasHeaders: boolean }): ReadCard {
  const card = parsed(text)
  if (card === null) throw badCard('it is not a JSON object')
  const interfaces = Array.isArray(card['supportedInterfaces']) ? card['supportedInterfaces'] : []
  const ours = interfaces.find(
    (one) => isObject(one) && one['protocolBinding'] === 'JSONRPC' && /^1(\.|$)/.test(String(one['protocolVersion'])),
  )
  const url = isObject(ours) && typeof ours['url'] === 'string' ? ours['url'] : null
  if (url === null)
    throw badCard('it lists no interface for A2A 1.0 over JSON-RPC, the only one that this server supports')
  if (url.length > LONGEST_URL || !URL.canParse(url)) throw badCard('the URL of its interface is not valid')
  if (hasHeaders && new URL(url).origin !== new URL(cardUrl).origin)
    throw badCard(
      "its interface has a different origin than the card, and the agent's headers may be sent only to the origin of the card: use a card from the origin of the interface",
    )
  const { name, description, version, capabilities, skills } = card
  return {
    fingerprint: digestOf(card),
    name: textOf(name, LONGEST_CARD_NAME),
    description: textOf(description, LONGEST_DESCRIPTION),
    version: textOf(version, LONGEST_CARD_NAME),
    url,
    skills: (Array.isArray(skills) ? skills : [])
      .slice(0, MOST_SKILLS)
      .map((skill) => (isObject(skill) ? textOf(skill['name'], LONGEST_CARD_NAME) : '')),
    streams: isObject(capabilities) && capabilities['streaming'] === true,
    deduplicates: isObject(capabilities) && declares(capabilities['extensions'], MESSAGE_ONCE_EXTENSION),
  }
}

const declares = (extensions: unknown, uri: string): boolean =>
  Array.isArray(extensions) && extensions.some((extension) => isObject(extension) && extension['uri'] === uri)

const badCard = (why: string) => new ToolFailure('BAD_CARD', `The agent card cannot be used: ${why}.`)

const textOf = (value: unknown, most: number) => (typeof value === 'string' ? cut(value, most) : '')

function parsed(text: string): JsonObject | null {
  try {
    const value: unknown = JSON.parse(text)
    if (!isObject(value) || isTooDeep(value)) return null
    return toJson(value) as JsonObject
  } catch {
    return null
  }
}
