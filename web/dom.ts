type Attributes = Record<string, string | boolean | ((event: Event) => void)>

/**
 * An element with its attributes (true for present, false for absent, a function under `on…` for a listener) and what stands
 * in it. A string becomes text, whatever it holds: messages are written by strangers.
 */
export function element<Tag extends keyof HTMLElementTagNameMap>(
  tag: Tag,
  attributes: Attributes = {},
  ...children: (Node | string)[]
): HTMLElementTagNameMap[Tag] {
  const made = document.createElement(tag)
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === 'function') made.addEventListener(name.slice(2), value)
    else if (value !== false) made.setAttribute(name, value === true ? '' : value)
  }
  made.append(...children)
  return made
}

let fields = 0

/** A field under its label. */
export function labelled(label: string, field: HTMLElement): HTMLElement {
  fields += 1
  field.id = `field-${fields}`
  return element('div', { class: 'field' }, element('label', { for: field.id }, label), field)
}

/** A form that does something with what was filled in, once at a time, and says what went wrong. */
export function form(
  { onSubmit, onError, label }: { onSubmit(): Promise<void>; onError(error: unknown): void; label: string },
  ...children: (Node | string)[]
): HTMLFormElement {
  let isBusy = false
  const made = element('form', { 'aria-label': label }, ...children)
  made.addEventListener('submit', (event) => {
    event.preventDefault()
    if (isBusy) return
    isBusy = true
    made.setAttribute('aria-busy', 'true')
    onSubmit()
      .catch(onError)
      .finally(() => {
        isBusy = false
        made.removeAttribute('aria-busy')
      })
  })
  return made
}

/** A button that does something once at a time, and says what went wrong. */
export function button(label: string, onClick: () => Promise<void>, onError: (error: unknown) => void) {
  const made = element('button', { type: 'button' }, label)
  made.addEventListener('click', () => {
    made.disabled = true
    onClick()
      .catch(onError)
      .finally(() => {
        made.disabled = false
      })
  })
  return made
}

/** The one of the page that has this id. */
export function byId(id: string): HTMLElement {
  const found = document.getElementById(id)
  if (found === null) throw new Error(`The page has no #${id}.`)
  return found
}

/** Says what went wrong, until it is dismissed or something newer takes its place. */
export function notify(text: string): void {
  const notices = byId('notices')
  const dismiss = element('button', { type: 'button', onclick: () => notices.replaceChildren() }, 'Dismiss')
  notices.replaceChildren(element('p', {}, text), dismiss)
}
