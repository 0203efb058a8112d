/**
 * Returns whether the host of a URL is this machine or in a private network. The server sends requests of tools there only if
 * it is configured to. For a name that resolves to such an address, this is found only when the tool is called.
 */
export function isPrivateAddress(url: string): boolean {
  let host: string
  try {
    host = new URL(url).hostname.replace(/^\[|\]$/g, '')
  } catch {
    return false
  }
  if (host === 'localhost' || host.endsWith('.localhost')) return true
  if (host.includes(':')) return /^(::1?$|f[cd]|fe[89ab])/i.test(host)
  const [a = 0, b = 0] = host.split('.').map(Number)
  if (!/^\d+\.\d+\.\d+\.\d+$/.test(host)) return false
  return (
    a === 0 ||
    a === 10 ||
    a === 127 ||
    (a === 169 && b === 254) ||
    (a === 172 && b >= 16 && b < 32) ||
    (a === 192 && b === 168)
  )
}
