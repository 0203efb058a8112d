import { lookup as systemLookup } from 'node:dns/promises'
import { isIP, type LookupFunction } from 'node:net'
import { buildConnector } from 'undici'
import { isPublicAddress } from '../../lib/addresses.ts'

/** Resolves a host name to its addresses, like `dns.promises.lookup` with `all`. */
export type ResolveAddresses = (hostname: string) => Promise<{ address: string; family: number }[]>

export interface AddressGuardOptions {
  /** Whether an IP address is allowed. By default, the addresses of the public internet are allowed. */
  isAllowed?: (address: string) => boolean
  /** Resolves host names. Defaults to the system's resolver. */
  resolve?: ResolveAddresses
  /** Certificates of authorities (PEM) that are trusted instead of the system's. */
  ca?: string
}

/** A connection was refused because of its address. */
export class BlockedAddressError extends Error {
  constructor(hostname: string) {
    // The message omits the address, because the address of an internal host name must not be revealed.
    super(
      `The address of "${hostname}" is not allowed, because it is private. The operator can allow private addresses with PARLEY_ALLOW_PRIVATE_TOOLS=true.`,
    )
  }
}

/**
 * Opens sockets for undici, only to allowed addresses. A socket connects to an address that was checked, and its
 * remote address is checked again, so that DNS rebinding has no effect.
 */
export function createGuardedConnector(options: AddressGuardOptions): buildConnector.connector {
  const { isAllowed = isPublicAddress, resolve = (hostname) => systemLookup(hostname, { all: true }), ca } = options

  async function resolveAllowed(hostname: string) {
    const addresses = await resolve(hostname)
    // One disallowed address is enough to refuse the host name.
    if (!addresses.every(({ address }) => isAllowed(address))) throw new BlockedAddressError(hostname)
    if (addresses.length === 0) throw new Error(`The host "${hostname}" has no address.`)
    return addresses
  }

  const lookup: LookupFunction = (hostname, { all }, callback) => {
    resolveAllowed(hostname).then(
      (addresses) => {
        if (all === true) return callback(null, addresses)
        const [first] = addresses
        callback(null, first?.address ?? '', first?.family)
      },
      (error) => callback(error, '', 0),
    )
  }

  const connect = buildConnector({
    allowH2: false,
    lookup,
    autoSelectFamily: true,
    ...(ca === undefined ? {} : { ca }),
  })
  return (target, callback) => {
    // If the host is an IP address, the socket connects without a lookup.
    const hostname = target.hostname.replace(/^\[|\]$/g, '')
    if (isIP(hostname) !== 0 && !isAllowed(hostname)) return callback(new BlockedAddressError(hostname), null)
    connect(target, (...result) => {
      // After an error, the second argument is missing, although its type says otherwise.
      const socket = result[1] ?? null
      if (socket !== null && !isAllowed(socket.remoteAddress ?? '')) {
        socket.destroy()
        return callback(new BlockedAddressError(hostname), null)
      }
      callback(...result)
    })
  }
}
