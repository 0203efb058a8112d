import { basePath } from '../location.ts'

// The pages of these links are not part of the first load, so their paths are recognized here.

const pathHere = () => (location.pathname.startsWith(`${basePath}/`) ? location.pathname.slice(basePath.length) : '')

const pathIf = (pattern: RegExp): string | null => (pattern.test(pathHere()) ? pathHere() : null)

/** Returns the path of an invitation or of a link from an email; null on other pages. */
export const signInLinkPath = () => pathIf(/^\/(invitations|auth\/mail)\/[^/]+$/)

/** Returns the path of the link that the server prints when it starts; null on other pages. */
export const startLinkPath = () => pathIf(/^\/sign-in\/[^/]+$/)

/** Returns whether the URL is a join link, which people can open before they sign in. */
export const isJoinLink = () => pathIf(/^\/join\//) !== null
