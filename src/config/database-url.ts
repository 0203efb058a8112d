import { z } from 'zod'

const PROTOCOLS = ['postgres:', 'postgresql:']

/** A URL of which `pg` reads the same: without a host it needs another one to be a URL. */
const withHost = (value: string) => value.replace('@/', '@socket/')

/**
 * Where PostgreSQL is: `postgresql://user:password@host:5432/name`; by a Unix socket, the folder that it lies in as `host`:
 * `postgresql://user@/name?host=/var/run/postgresql`.
 */
export const databaseUrl = z
  .string()
  .refine((value) => URL.canParse(withHost(value)) && PROTOCOLS.includes(new URL(withHost(value)).protocol), {
    message:
      'must be a URL like postgresql://user@host:5432/name, or postgresql://user@/name?host=/var/run/postgresql for a socket',
  })
  .optional()
