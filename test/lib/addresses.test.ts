import fastCheck from 'fast-check'
import { describe, expect, test } from 'vitest'
import { isPublicAddress, networkOf } from '../../src/lib/addresses.ts'

describe('a public address', () => {
  test.each([
    '1.1.1.1',
    '93.184.216.34',
    '172.32.0.1',
    '100.128.0.1',
    '2606:4700:4700::1111',
    '::ffff:1.1.1.1',
    '64:ff9b::101:101',
  ])('is %s', (address) => {
    expect(isPublicAddress(address)).toBe(true)
  })

  test.each([
    '127.0.0.1',
    '127.255.255.254',
    '0.0.0.0',
    '10.0.0.1',
    '172.16.0.1',
    '172.31.255.255',
    '192.168.1.1',
    '169.254.169.254',
    '169.254.170.2',
    '168.63.129.16',
    '100.64.0.1',
    '100.100.100.200',
    '192.0.0.192',
    '224.0.0.1',
    '239.255.255.255',
    '255.255.255.255',
    '240.0.0.1',
    '198.18.0.1',
    '192.0.2.1',
    '203.0.113.1',
    '::',
    '::1',
    'fe80::1',
    'fe80::1%eth0',
    'fc00::1',
    'fd00:ec2::254',
    'fec0::1',
    'ff02::1',
    '2001:db8::1',
    '100::1',
    '4000::1',
    '5f00::1',
    '::808:808',
  ])('is not %s', (address) => {
    expect(isPublicAddress(address)).toBe(false)
  })

  test.each([
    '127.1',
    '127.0.1',
    '2130706433',
    '0x7f000001',
    '0x7f.1',
    '0177.0.0.1',
    '017700000001',
    '::ffff:7f00:1',
    '::ffff:127.0.0.1',
  ])('is not 127.0.0.1 when spelled %s', (address) => {
    expect(isPublicAddress(address)).toBe(false)
  })

  test.each([
    '::127.0.0.1',
    '64:ff9b::7f00:1',
    '64:ff9b:1::a00:1',
    '2002:7f00:1::',
    '2002:a9fe:a9fe::1',
    '2001:0:a00:1::',
    '::ffff:0:7f00:1',
  ])('is not %s, which maps to a private IPv4 address', (address) => {
    expect(isPublicAddress(address)).toBe(false)
  })

  test.each(['', 'localhost', 'example.com', '1.1.1.1.', ' 1.1.1.1', '1.1.1.256', '[::1]'])('is not %j', (text) => {
    expect(isPublicAddress(text)).toBe(false)
  })

  test('is in none of the private IPv4 networks, in any embedding', () => {
    const part = fastCheck.nat(255)
    const privateAddress = fastCheck.oneof(
      fastCheck.tuple(fastCheck.constant(10), part, part, part),
      fastCheck.tuple(fastCheck.constant(127), part, part, part),
      fastCheck.tuple(fastCheck.constant(172), fastCheck.integer({ min: 16, max: 31 }), part, part),
      fastCheck.tuple(fastCheck.constant(192), fastCheck.constant(168), part, part),
      fastCheck.tuple(fastCheck.constant(169), fastCheck.constant(254), part, part),
    )
    fastCheck.assert(
      fastCheck.property(privateAddress, ([a, b, c, d]) => {
        const hexadecimal = `${((a << 8) | b).toString(16)}:${((c << 8) | d).toString(16)}`
        const number = ((a << 24) | (b << 16) | (c << 8) | d) >>> 0
        const spellings = [
          `${a}.${b}.${c}.${d}`,
          `::ffff:${a}.${b}.${c}.${d}`,
          `::ffff:${hexadecimal}`,
          `64:ff9b::${hexadecimal}`,
          `2002:${hexadecimal}::1`,
          String(number),
          `0x${number.toString(16)}`,
        ]
        for (const spelling of spellings) expect(isPublicAddress(spelling)).toBe(false)
      }),
    )
  })
})

test.each([
  ['2001:db8:0:1:2:3:4:5', '2001:db8:0:1::/64'],
  ['2001:db8:0:1::', '2001:db8:0:1::/64'],
  ['fe80::1%eth0', 'fe80:0:0:0::/64'],
  ['::ffff:203.0.113.1', '203.0.113.1'],
  ['203.0.113.1', '203.0.113.1'],
  ['unknown', 'unknown'],
])('the network of %s is %s', (address, network) => {
  expect(networkOf(address)).toBe(network)
})
