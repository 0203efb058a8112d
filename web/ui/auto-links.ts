/** A link in a text without markup. */
export interface BareLink {
  words: string
  address: string
}

// Each repetition is bounded, or ends at a character that it cannot match, so matching takes time linear in the text.
const BARE = /(?<![\w/])(?:https?:\/\/[^\s<]+|www\.[^\s<]+|[\w.+-]{1,64}@[a-z\d-]{1,63}(?:\.[a-z\d-]{1,63}){1,8})/gi
const ENDS = /[?!.,:;*_~'"]/

/** Splits a text at its links without markup: `https://…`, `www.…` and email addresses. */
export function linkPieces(text: string): (string | BareLink)[] {
  const pieces: (string | BareLink)[] = []
  let end = 0
  for (const { 0: found, index } of text.matchAll(BARE)) {
    const words = withoutEnd(found)
    if (index > end) pieces.push(text.slice(end, index))
    pieces.push({ words, address: addressOf(words) })
    end = index + words.length
  }
  if (end < text.length) pieces.push(text.slice(end))
  return pieces
}

function addressOf(words: string): string {
  if (/^https?:/i.test(words)) return words
  return /^www\./i.test(words) ? `http://${words}` : `mailto:${words}`
}

/** Trailing punctuation belongs to the sentence. So does a closing bracket without an opening bracket in the URL. */
function withoutEnd(found: string): string {
  let unopened = (found.match(/\)/g)?.length ?? 0) - (found.match(/\(/g)?.length ?? 0)
  let length = found.length
  for (; length > 1; length -= 1) {
    const last = found[length - 1] ?? ''
    if (last === ')' && unopened > 0) unopened -= 1
    else if (!ENDS.test(last)) break
  }
  return found.slice(0, length)
}
