// The tokens, in this tab and for as long as it is open: never in a URL, and nowhere else.
const TOKEN = 'parley.token'
const OPERATOR = 'parley.operator'
const SPACE = 'parley.space'

/** Whom one is here as; null before one has signed in. */
export function currentToken(): string | null {
  return sessionStorage.getItem(TOKEN)
}

export function signInWith(token: string): void {
  sessionStorage.setItem(TOKEN, token)
  sessionStorage.removeItem(SPACE)
}

/** The space that is open, so that a reload opens it again. */
export function rememberSpace(spaceId: string | null): void {
  if (spaceId === null) sessionStorage.removeItem(SPACE)
  else sessionStorage.setItem(SPACE, spaceId)
}

export function rememberedSpace(): string | null {
  return sessionStorage.getItem(SPACE)
}

/** Goes on as somebody else; an operator can come back. */
export function goOnAs(token: string): void {
  const operator = currentToken()
  if (operator !== null) sessionStorage.setItem(OPERATOR, operator)
  signInWith(token)
}

export function canGoBack(): boolean {
  return sessionStorage.getItem(OPERATOR) !== null
}

export function goBackToOperator(): void {
  const operator = sessionStorage.getItem(OPERATOR)
  if (operator !== null) signInWith(operator)
  sessionStorage.removeItem(OPERATOR)
}

export function signOut(): void {
  for (const key of [TOKEN, OPERATOR, SPACE]) sessionStorage.removeItem(key)
}
