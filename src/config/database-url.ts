import { z } from 'zod'

const PROTOCOLS = ['postgres:', 'postgresql:']

/** Adds a host, which `URL` requires and `pg` does not. */
const withHost = (value: string) => value.replace('@/', '@socket/')

/**
 * The address of PostgreSQL: `postgresql://user:password@host:5432/name`, or for a Unix socket, its folder as `host`:
 * `postgresql://user@/name?host=/var/run/postgresql`.
 */
export const databaseUrl = z
  .string()
  .refine((value) => URL.canParse(withHost(value)) && PROTOCOLS.includes(new URL(withHost(value)).protocol), {
    message:
      'must be a URL like postgresql://user@host:5432/name, or postgresql://user@/name?host=/var/run/postgresql for a socket',
  })
  .optional()
