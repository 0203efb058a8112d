import ipaddr from 'ipaddr.js'

/**
 * Whether an IP address belongs to the public internet, where tools may send requests. The following are not public:
 * private, loopback, link-local, carrier-grade NAT, multicast, documentation, reserved and unspecified addresses, cloud
 * metadata services, and IPv6 addresses that contain one of these IPv4 addresses. Any text that is not an IP address is
 * not public either.
 */
export function isPublicAddress(address: string): boolean {
  // `isValid` also accepts the legacy notations of C libraries: 127.1, 0177.0.0.1, 0x7f.1, 2130706433.
  if (!ipaddr.isValid(address)) return false
  const parsed = ipaddr.parse(address)
  return parsed.kind() === 'ipv4' ? isPublicIPv4(parsed as ipaddr.IPv4) : isPublicIPv6(parsed as ipaddr.IPv6)
}

/** Internal services of a cloud that have public addresses: Azure's platform services. */
const METADATA_SERVICES = new Set(['168.63.129.16'])

function isPublicIPv4(address: ipaddr.IPv4): boolean {
  return address.range() === 'unicast' && !METADATA_SERVICES.has(address.toString())
}

/** The only IPv6 block for public unicast addresses (RFC 4291, 2.4). */
const GLOBAL_UNICAST = ipaddr.IPv6.parseCIDR('2000::/3')

/** NAT64 with the well-known prefix (RFC 6052). The last 32 bits are an IPv4 address. */
const NAT64 = ipaddr.IPv6.parseCIDR('64:ff9b::/96')

function isPublicIPv6(address: ipaddr.IPv6): boolean {
  if (address.zoneId !== undefined && address.zoneId !== null) return false
  if (address.isIPv4MappedAddress()) return isPublicIPv4(address.toIPv4Address())
  if (address.match(NAT64)) return isPublicIPv4(new ipaddr.IPv4(address.toByteArray().slice(-4)))
  // 6to4 and Teredo addresses also contain IPv4 addresses. They have their own ranges, which are refused.
  return address.match(GLOBAL_UNICAST) && address.range() === 'unicast'
}

/**
 * Returns the /64 network of an IPv6 address, because one client usually owns the whole network. Returns any other text
 * unchanged.
 */
export function networkOf(address: string): string {
  if (!ipaddr.IPv6.isValid(address)) return address
  const parsed = ipaddr.IPv6.parse(address)
  if (parsed.isIPv4MappedAddress()) return parsed.toIPv4Address().toString()
  const groups = parsed.parts.slice(0, 4).map((part) => part.toString(16))
  return `${groups.join(':')}::/64`
}
