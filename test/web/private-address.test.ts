import { expect, test } from 'vitest'
import { isPrivateAddress } from '../../web/operate/private-address.ts'

test.each([
  ['http://localhost:9999/', true],
  ['http://api.localhost/', true],
  ['http://127.0.0.1:8080', true],
  ['http://2130706433/', true],
  ['http://10.1.2.3/', true],
  ['http://172.31.0.1/', true],
  ['http://192.168.1.1/', true],
  ['http://169.254.169.254/', true],
  ['http://[::1]/', true],
  ['http://[fd00::1]/', true],
  ['https://172.32.0.1/', false],
  ['https://8.8.8.8/', false],
  ['https://example.com/', false],
  ['https://[2001:db8::1]/', false],
  ['https://10.example.com/', false],
  ['not a url', false],
])('%s is a private address: %s', (url, isPrivate) => {
  expect(isPrivateAddress(url)).toBe(isPrivate)
})
