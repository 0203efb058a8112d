/**
 * Returns the media type and charset that a `content-type` header declares, in lower case. Each is null if it is not
 * declared.
 */
export function contentTypeOf(header: string): { mediaType: string | null; charset: string | null } {
  const [type = '', ...parameters] = header.split(';').map((part) => part.trim())
  const charset = parameters.flatMap((parameter) => /^charset="?([^"\s]+)"?$/i.exec(parameter)?.[1] ?? [])[0]
  return { mediaType: type === '' ? null : type.toLowerCase(), charset: charset?.toLowerCase() ?? null }
}

/**
 * Decodes bytes according to their byte order mark or, without one, the declared charset or UTF-8. Bytes that are not
 * valid UTF-8 are decoded as windows-1252, as in browsers. An unknown charset is ignored.
 */
export function decodedText(bytes: Uint8Array, charset: string | null): string {
  const declared = markedCharset(bytes) ?? charset
  if (declared !== null && declared !== 'utf-8' && declared !== 'utf8') {
    try {
      return new TextDecoder(declared).decode(bytes)
    } catch {
      // The runtime does not know the charset.
    }
  }
  return utf8Text(bytes) ?? new TextDecoder('windows-1252').decode(bytes)
}

/** Decodes bytes as UTF-8. Returns null if they are not valid UTF-8 or contain NUL. */
export function utf8Text(bytes: Uint8Array): string | null {
  try {
    const text = new TextDecoder('utf-8', { fatal: true }).decode(bytes)
    return text.includes('\0') ? null : text
  } catch {
    return null
  }
}

function markedCharset([first, second, third]: Uint8Array): string | null {
  if (first === 0xef && second === 0xbb && third === 0xbf) return 'utf-8'
  if (first === 0xff && second === 0xfe) return 'utf-16le'
  return first === 0xfe && second === 0xff ? 'utf-16be' : null
}
