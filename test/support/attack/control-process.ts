// A bare HTTP server, for comparison: what it takes longer under attack is the machine's fault, and not the product's.
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'

const server = createServer((_, response) => response.end('{}'))
server.listen(0, '127.0.0.1', () => process.send?.({ port: (server.address() as AddressInfo).port }))
