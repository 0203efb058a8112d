import { domainToASCII } from 'node:url'
import { BadInputError } from './errors.ts'

const LONGEST_ADDRESS = 254
const LONGEST_LOCAL_PART = 64
/** A dot-atom of RFC 5322: no quotes, comments, spaces or control characters, so that no address can add a header. */
const IS_LOCAL_PART = /^[\w!#$%&'*+/=?^`{|}~-]+(\.[\w!#$%&'*+/=?^`{|}~-]+)*$/
const IS_DOMAIN = /^(?!.*\.\d+$)[a-z\d]([a-z\d-]{0,61}[a-z\d])?(\.[a-z\d]([a-z\d-]{0,61}[a-z\d])?)*$/

/**
 * Returns an e-mail address as it is stored: trimmed, with the domain in lower case and as ASCII (`bücher.example` becomes
 * `xn--bcher-kva.example`). Null for anything that is not an address of ASCII letters before the `@`: letters that only
 * look like another address must not be accepted as it.
 */
export function normalEmail(text: string): string | null {
  const address = text.trim()
  const at = address.lastIndexOf('@')
  const localPart = address.slice(0, at)
  const domain = domainToASCII(address.slice(at + 1)).toLowerCase()
  const isAddress =
    at > 0 && localPart.length <= LONGEST_LOCAL_PART && IS_LOCAL_PART.test(localPart) && IS_DOMAIN.test(domain)
  const normal = `${localPart}@${domain}`
  return isAddress && normal.length <= LONGEST_ADDRESS ? normal : null
}

/** As `normalEmail`. @throws BadInputError */
export function checkEmail(text: string, field: string): string {
  const email = normalEmail(text)
  if (email === null) throw new BadInputError('The text is not an email address like ada@example.com.', field)
  return email
}

/** Returns the normalized form of an address: addresses are equal if they differ only in case. */
export const emailKeyOf = (email: string): string => email.toLowerCase()
