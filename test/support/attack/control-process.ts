// A bare HTTP server for comparison. If it slows down during the attack, the cause is the machine and not the product.
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'

const server = createServer((_, response) => response.end('{}'))
server.listen(0, '127.0.0.1', () => process.send?.({ port: (server.address() as AddressInfo).port }))
