import { describe, expect, test } from 'vitest'
import { type Browser, obstacleOf } from '../../web/notify/obstacle.ts'

const able: Browser = { canPush: true, isSecure: true, isApple: false, permission: 'default' }

describe('the reason why a device gets no push messages', () => {
  test.each([
    ['the server has no key', null, able, /cannot read its push key/, /operator/],
    ['the page has no https', 'key', { ...able, canPush: false, isSecure: false }, /https/, /address of this server/],
    ['an iPhone shows a page', 'key', { ...able, canPush: false, isApple: true }, /home screen/, /Add to Home Screen/],
    ['the browser cannot', 'key', { ...able, canPush: false }, /private windows/, /another browser/],
    ['the person has blocked them', 'key', { ...able, permission: 'denied' as const }, /blocks/, /allow notifications/],
  ])('says what to do if %s', (_, publicKey, browser, reason, remedy) => {
    const obstacle = obstacleOf(publicKey, browser)
    expect(obstacle?.reason).toMatch(reason)
    expect(obstacle?.remedy).toMatch(remedy)
  })

  test('is null if the browser allows push messages, or asks first', () => {
    for (const permission of ['default', 'granted'] as const)
      expect(obstacleOf('key', { ...able, permission })).toBeNull()
    // Parley runs as an app on the home screen.
    expect(obstacleOf('key', { ...able, isApple: true })).toBeNull()
  })
})
