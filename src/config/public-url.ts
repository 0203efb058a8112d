import { z } from 'zod'

/** PARLEY_PUBLIC_URL: a scheme, a host, and an optional path prefix without a trailing slash. */
export const publicUrl = z
  .string()
  .refine(
    isPublicUrl,
    'must be a URL like https://chat.example.com or https://example.com/parley, without user, query or /graphql',
  )
  .transform(hrefOf)
  .optional()

function isPublicUrl(value: string): boolean {
  const url = URL.parse(value)
  if (url === null || !['http:', 'https:'].includes(url.protocol)) return false
  return (
    [url.username, url.password, url.search, url.hash].every((part) => part === '') &&
    !url.pathname.includes('//') &&
    !/\/graphql\/?$/.test(url.pathname)
  )
}

function hrefOf(value: string): string {
  const { origin, pathname } = new URL(value)
  return origin + pathname.replace(/\/$/, '')
}
