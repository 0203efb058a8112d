import { expect, test } from 'vitest'
import { LONGEST_PICTURE, pictureIn } from '../../src/rules/picture.ts'

const PIXEL = 'data:image/png;base64,iVBORw0KGgo='

test.each([
  ['https://example.com/ada.png?size=96', 'https://example.com/ada.png?size=96'],
  ['https://example.com/with space', 'https://example.com/with%20space'],
  [PIXEL, PIXEL],
])('the picture %s is kept', (claim, kept) => {
  expect(pictureIn(claim)).toBe(kept)
})

test.each([
  [undefined],
  [{ url: 'https://example.com/ada.png' }],
  ['http://example.com/ada.png'],
  ['https://ada:secret@example.com/ada.png'],
  ['javascript:alert(1)'],
  ['data:image/svg+xml;base64,PHN2Zz4='],
  ['data:text/html;base64,PHNjcmlwdD4='],
  ['data:image/png;base64,not base64'],
  [`https://example.com/${'a'.repeat(2048)}`],
  [`https://example.com/${'ä'.repeat(1000)}`],
  [`data:image/png;base64,${'A'.repeat(LONGEST_PICTURE)}`],
])('the claim %j does not come from a picture', (claim) => {
  expect(pictureIn(claim)).toBeNull()
})
