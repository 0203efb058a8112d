import { expect, test } from 'vitest'
import { wordsOfDigest } from '../../web/notify/digest-words.ts'

test.each([
  [{ mail: false, minutes: 15 }, /^You get no email\.$/],
  [{ mail: true, minutes: 0 }, /^You get an email at once\. It lists everything that is still open/],
  [{ mail: true, minutes: 1 }, /^You get an email 1 minute after something happened, if/],
  [{ mail: true, minutes: 90 }, /^You get an email 1 hour 30 minutes after/],
  [{ mail: true, minutes: 10_080 }, /^You get an email 7 days after/],
  [{ mail: true, minutes: Number.NaN }, /^Enter the minutes/],
])('the text for %o says when an email is sent', (settings, words) => {
  expect(wordsOfDigest(settings)).toMatch(words)
})
