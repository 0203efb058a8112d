import { domainToASCII } from 'node:url'
import { BadInputError } from './errors.ts'

const LONGEST_ADDRESS = 254
const LONGEST_LOCAL_PART = 64
/** A dot-atom of RFC 5322: no quotes, comments, spaces or control characters, so that no address can add a header. */
const IS_LOCAL_PART = /^[\w!#$%&'*+/=?^`{|}~-]+(\.[\w!#$%&'*+/=?^`{|}~-]+)*$/
const IS_DOMAIN = /^(?!.*\.\d+$)[a-z\d]([a-z\d-]{0,61}[a-z\d])?(\.[a-z\d]([a-z\d-]{0,61}[a-z\d])?)*$/

/**
 * Returns an e-mail address as it is stored: trimmed, with the domain in lower case and as ASCII (`bücher.example`
 * becomes `xn--bcher-kva.example`). Returns null if the text is not an address, or has other characters than ASCII
 * before the `@`, because such an address can look like another one.
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

/**
 * Like `normalEmail`, but throws for an invalid address.
 * @throws BadInputError
 */
export function checkEmail(text: string, field: string): string {
  const email = normalEmail(text)
  if (email === null) throw new BadInputError('The text is not an email address like ada@example.com.', field)
  return email
}

/** Returns an address in the form for comparisons: addresses that differ only in case are equal. */
export const emailKeyOf = (email: string): string => email.toLowerCase()
