import { expect, test } from 'vitest'
import { plainLine } from '../../web/ui/plain-line.ts'

test.each([
  ['Iris in "Garden": "Yes, frost: | time | sky | |---|--:| | 21:00 | cl"', 'Iris in "Garden": "Yes, frost: …"'],
  ['Message 2 in "Garden", by Iris: "| a | b | |---|---| | 1 |"', 'Message 2 in "Garden", by Iris: "…"'],
  ['Ada in "Garden": "Cover the **tomatoes** and `beans`"', 'Ada in "Garden": "Cover the tomatoes and beans"'],
  [
    'Ada in "Garden": "## Plan __now__: see [the list](https://a.example/b)"',
    'Ada in "Garden": "Plan now: see the list"',
  ],
  ['Ada in "Garden": "- one - two > three"', 'Ada in "Garden": "one - two > three"'],
  ['Noor in "Garden": "[order: done → {"item":"Fle…"', 'Noor in "Garden": called order'],
  ['my_agent__x in "a|b": "either | or"', 'my_agent__x in "a|b": "either | or"'],
])('%s is shown as plain text', (line, shown) => {
  expect(plainLine(line)).toBe(shown)
})
