/** The maximum length of a human's picture, in UTF-16 units, because one response may contain many people. */
export const LONGEST_PICTURE = 8192
const LONGEST_URL = 2048
const PORTRAIT_START = 'data:image/webp;base64,'
/** The maximum size of a WebP image that fits into a picture. */
export const LARGEST_PORTRAIT_BYTES = Math.floor((LONGEST_PICTURE - PORTRAIT_START.length) / 4) * 3
/** Returns a WebP image as a data URL. */
export const pictureOfPortrait = (portrait: Buffer): string => PORTRAIT_START + portrait.toString('base64')

/** Image formats that browsers show and that, unlike SVG, cannot contain scripts. */
const IMAGE_DATA = /^data:image\/(png|jpeg|gif|webp);base64,[A-Za-z0-9+/]+={0,2}$/

/**
 * Returns the picture in a claim of an identity provider: an https URL without user and password, or a small image
 * as a data URL. Returns null for anything else.
 */
export function pictureIn(claim: unknown): string | null {
  if (typeof claim !== 'string') return null
  if (claim.startsWith('data:')) return claim.length <= LONGEST_PICTURE && IMAGE_DATA.test(claim) ? claim : null
  const url = claim.length <= LONGEST_URL ? URL.parse(claim) : null
  const isPublic = url?.protocol === 'https:' && url.username === '' && url.password === ''
  return isPublic && url.href.length <= LONGEST_URL ? url.href : null
}
