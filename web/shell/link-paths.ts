import { basePath } from '../location.ts'

// The pages of these links are not part of the first load, so their paths are recognized here.

const pathHere = () => (location.pathname.startsWith(`${basePath}/`) ? location.pathname.slice(basePath.length) : '')

const pathIf = (pattern: RegExp): string | null => (pattern.test(pathHere()) ? pathHere() : null)

/** The path of an invitation or of a link from an email; null on other pages. */
export const signInLinkPath = () => pathIf(/^\/(invitations|auth\/mail)\/[^/]+$/)

/** The path of the link that the server prints when it starts; null on other pages. */
export const startLinkPath = () => pathIf(/^\/sign-in\/[^/]+$/)

/** Whether the address is a join link, on which nobody needs to be signed in yet. */
export const isJoinLink = () => pathIf(/^\/join\//) !== null
