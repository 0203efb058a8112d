import { lookup as systemLookup } from 'node:dns/promises'
import { isIP, type LookupFunction } from 'node:net'
import { buildConnector } from 'undici'
import { isPublicAddress } from './addresses.ts'

/** The addresses of a host name, as `dns.promises.lookup` gives them with `all`. */
export type ResolveAddresses = (hostname: string) => Promise<{ address: string; family: number }[]>

export interface AddressGuardOptions {
  /** Which IP addresses may be connected to; those of the public internet where not given. */
  isAllowed?: (address: string) => boolean
  /** The system's resolver where not given. */
  resolve?: ResolveAddresses
}

/** A connection was refused because of the address that it would have gone to. */
export class BlockedAddressError extends Error {
  constructor(hostname: string) {
    // The address itself stays untold: it would show outsiders what is behind internal names.
    super(`The address of "${hostname}" is not allowed.`)
  }
}

/**
 * Opens sockets for undici, to allowed addresses only. The check is made on the very addresses that the socket then connects
 * to, and once more on the connected socket, so that a name which changes its address between check and use gains nothing.
 */
export function createGuardedConnector(options: AddressGuardOptions): buildConnector.connector {
  const { isAllowed = isPublicAddress, resolve = (hostname) => systemLookup(hostname, { all: true }) } = options

  async function resolveAllowed(hostname: string) {
    const addresses = await resolve(hostname)
    // One address that is not allowed is reason enough to distrust the name.
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

  const connect = buildConnector({ allowH2: false, lookup, autoSelectFamily: true })
  return (target, callback) => {
    // A literal address is connected to without a lookup.
    const hostname = target.hostname.replace(/^\[|\]$/g, '')
    if (isIP(hostname) !== 0 && !isAllowed(hostname)) return callback(new BlockedAddressError(hostname), null)
    connect(target, (...result) => {
      // On an error there is no second value, whatever its type says.
      const socket = result[1] ?? null
      if (socket !== null && !isAllowed(socket.remoteAddress ?? '')) {
        socket.destroy()
        return callback(new BlockedAddressError(hostname), null)
      }
      callback(...result)
    })
  }
}
