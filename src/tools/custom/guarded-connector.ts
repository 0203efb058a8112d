import { lookup as systemLookup } from 'node:dns/promises'
import { isIP, type LookupFunction } from 'node:net'
import { buildConnector } from 'undici'
import { isPublicAddress } from '../../lib/addresses.ts'

/** Resolves a host name to its addresses, like `dns.promises.lookup` with `all`. */
export type ResolveAddresses = (hostname: string) => Promise<{ address: string; family: number }[]>

export interface AddressGuardOptions {
  /** Whether an IP address is allowed; by default, those of the public internet are. */
  isAllowed?: (address: string) => boolean
  /** The system's resolver by default. */
  resolve?: ResolveAddresses
  /** Certificates of authorities (PEM) to trust instead of the system's. */
  ca?: string
}

/** A connection was refused because of its address. */
export class BlockedAddressError extends Error {
  constructor(hostname: string) {
    // The message omits the address, which would reveal the address of an internal name.
    super(
      `The address of "${hostname}" is private. To allow private addresses, the operator sets PARLEY_ALLOW_PRIVATE_TOOLS=true.`,
    )
  }
}

/**
 * Opens sockets for undici, to allowed addresses only. The socket connects to the addresses that were checked, and its
 * remote address is checked again, so that DNS rebinding has no effect.
 */
export function createGuardedConnector(options: AddressGuardOptions): buildConnector.connector {
  const { isAllowed = isPublicAddress, resolve = (hostname) => systemLookup(hostname, { all: true }), ca } = options

  async function resolveAllowed(hostname: string) {
    const addresses = await resolve(hostname)
    // A single disallowed address is enough to refuse the name.
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
    // For a literal address, the socket connects without a lookup.
    const hostname = target.hostname.replace(/^\[|\]$/g, '')
    if (isIP(hostname) !== 0 && !isAllowed(hostname)) return callback(new BlockedAddressError(hostname), null)
    connect(target, (...result) => {
      // After an error the second argument is missing, although the type requires it.
      const socket = result[1] ?? null
      if (socket !== null && !isAllowed(socket.remoteAddress ?? '')) {
        socket.destroy()
        return callback(new BlockedAddressError(hostname), null)
      }
      callback(...result)
    })
  }
}
