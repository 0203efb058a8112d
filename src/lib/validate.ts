import { BadInputError } from './errors.ts'
import { DEEPEST_JSON, isTooDeep, jsonBytes } from './json.ts'

/**
 * The limits of the contract (section "Sizes" in its README): names in characters, text in UTF-16 units, JSON in bytes.
 */
export const LONGEST_NAME = 200
export const LONGEST_MESSAGE = 32_000
export const LONGEST_INSTRUCTIONS = 64_000
export const LARGEST_JSON_BYTES = 256 * 1024

const LONGEST_IDEMPOTENCY_KEY = 200

/** PostgreSQL's text type cannot contain NUL. */
function checkNul(value: string, field: string): void {
  if (value.includes('\0')) throw new BadInputError('Text must not contain the NUL character.', field)
}

/**
 * Control characters (C0, DEL, C1), line and paragraph separators, and the embedding, override and isolate characters
 * that change the direction of surrounding text. Other invisible characters are allowed: names in Persian or with emoji
 * need joiners, and names of mixed direction need direction marks.
 */
const NOT_IN_NAMES = /[\p{Cc}\u2028\u2029\u202a-\u202e\u2066-\u2069]/u
/** Control characters (C0, DEL, C1) except TAB, LF and CR. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: the expression searches for control characters
const NOT_IN_MESSAGES = /[\0-\x08\v\f\x0e-\x1f\x7f-\x9f]/
const ALL_NOT_IN_MESSAGES = new RegExp(NOT_IN_MESSAGES, 'g')

/**
 * Replaces each control character except TAB, LF and CR with U+FFFD, so that pasted terminal output or generated text
 * is accepted. The length does not change.
 */
export function messageCharacters(text: string): string {
  return NOT_IN_MESSAGES.test(text) ? text.replace(ALL_NOT_IN_MESSAGES, '\uFFFD') : text
}

/** Whether all characters are allowed in a name. */
export const hasNameCharacters = (name: string): boolean => !NOT_IN_NAMES.test(name)

/** @throws BadInputError if a character is not allowed in a name. */
export function checkNameCharacters(name: string, field: string): void {
  const found = NOT_IN_NAMES.exec(name)
  if (found === null) return
  const code = found[0].charCodeAt(0).toString(16).toUpperCase().padStart(4, '0')
  const problem = `remove U+${code} at position ${found.index + 1}`
  throw new BadInputError(`A name must not contain control characters or line breaks: ${problem}.`, field)
}

/**
 * Whether a text has more than `characters` characters. A character can be one or two UTF-16 units, so the characters
 * are counted if the length alone does not decide.
 */
function isLongerThan(value: string, characters: number): boolean {
  return value.length > characters && (value.length > 2 * characters || [...value].length > characters)
}

/**
 * Checks that a name has 1–200 characters, not only white space, and no control characters. Returns the name trimmed
 * and well-formed.
 */
export function checkName(value: string, field: string): string {
  checkNameCharacters(value, field)
  const name = value.trim()
  if (name === '' || isLongerThan(value, LONGEST_NAME)) {
    throw new BadInputError(`A name has 1 to ${LONGEST_NAME} characters.`, field)
  }
  return name.toWellFormed()
}

/**
 * Checks that a message has 1–32,000 UTF-16 units, not only white space, and no NUL. Returns the message with control
 * characters replaced (see `messageCharacters`) and with U+FFFD for each lone surrogate, which PostgreSQL rejects.
 */
export function checkMessageText(value: string, field: string): string {
  checkNul(value, field)
  if (value.trim() === '' || value.length > LONGEST_MESSAGE) {
    throw new BadInputError(`A message has 1 to ${LONGEST_MESSAGE} characters, not only white space.`, field)
  }
  return messageCharacters(value).toWellFormed()
}

/** Checks that a text has at most `most` UTF-16 units. Returns it with lone surrogates replaced. */
export function checkText(value: string, most: number, field: string): string {
  checkNul(value, field)
  if (value.length > most) throw new BadInputError(`The text can have at most ${most} characters.`, field)
  return value.toWellFormed()
}

const LONGEST_SEARCH = 200

/** Returns the normalized search text, or '' if there is none. @throws BadInputError if the text is too long */
export function checkSearch(search: string | null | undefined): string {
  if (search != null && search.length > LONGEST_SEARCH)
    throw new BadInputError(`A search has at most ${LONGEST_SEARCH} characters.`, 'search')
  return search?.replaceAll('\0', '').trim() ?? ''
}

/** Returns a LIKE pattern that matches texts containing `search`. */
export function likePattern(search: string): string {
  return `%${search.replace(/[\\%_]/g, '\\$&')}%`
}

/** Checks an idempotency key. Returns it with lone surrogates replaced. */
export function checkIdempotencyKey(key: string, field: string): string {
  checkNul(key, field)
  if (key.length < 1 || key.length > LONGEST_IDEMPOTENCY_KEY) {
    throw new BadInputError(`An idempotency key has 1 to ${LONGEST_IDEMPOTENCY_KEY} characters.`, field)
  }
  return key.toWellFormed()
}

/** Checks that a number is a whole number within a range. */
export function checkInteger(value: number, least: number, most: number, field: string): number {
  if (!Number.isInteger(value) || value < least || value > most) {
    throw new BadInputError(`Must be a whole number from ${least} to ${most}.`, field)
  }
  return value
}

/** Checks that a value has at most 256 KiB as JSON and at most 200 levels. */
export function checkJsonSize(value: unknown, field: string): void {
  if (isTooDeep(value)) throw new BadInputError(`JSON must not be nested more than ${DEEPEST_JSON} levels deep.`, field)
  if (jsonBytes(value) > LARGEST_JSON_BYTES) throw new BadInputError('JSON must not exceed 256 KiB.', field)
}

/** Returns the index of the first value that repeats an earlier one; -1 if all values differ. */
export function indexOfRepeat<T>(values: readonly T[]): number {
  return values.findIndex((value, index) => values.indexOf(value) !== index)
}
