import { Menu } from '@base-ui/react/menu'
import { Popover } from '@base-ui/react/popover'
import { type RefObject, useRef } from 'react'
import { useLocation } from 'wouter'
import { type Message, payloadOf } from '../../client/index.ts'
import { useAsk, useDo } from '../ask.ts'
import { addressOf } from '../location.ts'
import { useSession } from '../session.tsx'
import { Button } from '../ui/button.tsx'
import { copyText } from '../ui/copy-text.ts'
import { Dialog } from '../ui/dialog.tsx'
import { Form, TextField, textIn } from '../ui/field.tsx'
import { Icon, type IconName } from '../ui/icons.tsx'
import { Refused, Unanswered } from '../ui/notice.tsx'
import { CopySpace } from './copy-space.tsx'
import { mayDelete, mayEdit, mayReact, mayReply, textOf, type useMessageVerbs } from './message-verbs.tsx'
import { DELETE_MESSAGE, REACTIONS } from './operations.ts'
import { useReact } from './reactions.tsx'

/** The open part of a message's menu: the menu itself, or the view that was chosen there. */
export type Surface = 'menu' | 'react' | 'who' | 'copy' | 'delete'

interface SurfaceProps {
  message: Message
  verbs: NonNullable<ReturnType<typeof useMessageVerbs>>
  surface: Surface
  onSurface(next: Surface | null): void
  anchor: RefObject<HTMLElement | null>
  /** The button that opened the menu, which gets the focus back. */
  opener: RefObject<HTMLElement | null>
}

/** Loaded when somebody first points at a message, or reaches its buttons by keyboard. */
export function MessageSurface(props: SurfaceProps) {
  const { message, surface, onSurface, anchor, opener } = props
  const close = () => onSurface(null)
  switch (surface) {
    case 'menu':
      return <MessageMenu {...props} />
    case 'react':
      return <ReactPopover message={message} anchor={anchor} opener={opener} onClose={close} />
    case 'who':
      return (
        <Dialog title="Reactions" open onOpenChange={close}>
          <WhoReacted messageId={message.id} />
        </Dialog>
      )
    case 'copy':
      return (
        <Dialog title="Copy the space up to here" open onOpenChange={close}>
          <CopyUpTo message={message} spaceId={props.verbs.spaceId} onCopied={close} />
        </Dialog>
      )
    case 'delete':
      return (
        <Dialog title="Delete this message?" open onOpenChange={close}>
          <ConfirmDeletion message={message} onClose={close} />
        </Dialog>
      )
  }
}

interface Verb {
  words: string
  icon: IconName
  /** The view that opens instead of the menu. */
  opens?: Surface
  act?(): void
  /** Whether the action moves the focus to another element, so that the menu does not return it. */
  movesFocus?: boolean
  isDangerous?: boolean
}

/** Add further actions on messages here. */
function useVerbs({ message, verbs }: SurfaceProps): Verb[] {
  const session = useSession()
  const [, go] = useLocation()
  const { edit, quote, tell, openThread, spaceId } = verbs
  const text = textOf(message)
  const copy = (copied: string, words: string) =>
    void copyText(copied).then(
      () => tell(words),
      () => tell('The browser did not allow copying.'),
    )
  const link = addressOf(`/spaces/${spaceId}#${message.id}`)
  const found: (Verb | false)[] = [
    mayReact(message, session) && { words: 'React…', icon: 'smile', opens: 'react' },
    openThread !== null &&
      mayReply(message, session) && {
        words: 'Reply in thread',
        icon: 'reply',
        movesFocus: true,
        act: () => openThread(message.id),
      },
    session.isHuman && text !== '' && { words: 'Quote', icon: 'quote', movesFocus: true, act: () => quote(message) },
    mayEdit(message, session) && { words: 'Edit', icon: 'pen', movesFocus: true, act: () => edit(message.id) },
    text !== '' && { words: 'Copy text', icon: 'copy', act: () => copy(text, 'Text copied.') },
    { words: 'Copy link', icon: 'link', act: () => copy(link, 'Link copied.') },
    { words: 'Why?', icon: 'branch', movesFocus: true, act: () => go(`/why/${message.id}`) },
    message.reactions.length > 0 && { words: 'People who reacted', icon: 'people', opens: 'who' },
    openThread !== null && { words: 'Copy the space up to here…', icon: 'copy', opens: 'copy' },
    mayDelete(message, session) && { words: 'Delete…', icon: 'bin', isDangerous: true, opens: 'delete' },
  ]
  return found.filter((verb) => verb !== false)
}

function MessageMenu(props: SurfaceProps) {
  const { onSurface, anchor, opener } = props
  const offered = useVerbs(props)
  const movesFocus = useRef(false)
  const choose = ({ opens, act, movesFocus: moves = opens !== undefined }: Verb) => {
    movesFocus.current = moves
    act?.()
    onSurface(opens ?? null)
  }
  return (
    <Menu.Root open onOpenChange={(_, { reason }) => reason !== 'item-press' && onSurface(null)}>
      <Menu.Portal container={document.getElementById('page')}>
        <Menu.Positioner anchor={anchor} align="end" sideOffset={4} className="positioner">
          <Menu.Popup
            className="menu"
            aria-label="Message actions"
            finalFocus={() => (movesFocus.current ? false : opener.current)}
          >
            {offered.map((verb) => (
              <Menu.Item
                key={verb.words}
                className={verb.isDangerous ? 'menu-item bad' : 'menu-item'}
                onClick={() => choose(verb)}
              >
                <Icon name={verb.icon} size={16} /> {verb.words}
              </Menu.Item>
            ))}
          </Menu.Popup>
        </Menu.Positioner>
      </Menu.Portal>
    </Menu.Root>
  )
}

const EMOJIS = ['👍', '❤️', '😂', '🎉', '👀', '✅', '🙏', '🤔'] as const

interface ReactPopoverProps extends Pick<SurfaceProps, 'message' | 'anchor' | 'opener'> {
  onClose(): void
}

function ReactPopover({ message, anchor, opener, onClose }: ReactPopoverProps) {
  const react = useReact(message.id)
  const choose = (emoji: string) => {
    const isMine = message.reactions.some((reaction) => reaction.emoji === emoji && reaction.mine)
    react.start({ emoji, on: !isMine }, onClose)
  }
  return (
    <Popover.Root open modal onOpenChange={(isOpen) => !isOpen && onClose()}>
      <Popover.Portal container={document.getElementById('page')}>
        <Popover.Positioner anchor={anchor} align="end" sideOffset={4} className="positioner">
          <Popover.Popup className="popover react" finalFocus={opener}>
            <Popover.Title className="popover-title">React</Popover.Title>
            <div className="emojis">
              {EMOJIS.map((emoji) => (
                <button key={emoji} type="button" className="emoji" onClick={() => choose(emoji)}>
                  {emoji}
                </button>
              ))}
            </div>
            <Form
              label="Another emoji"
              submit="React"
              isBusy={react.isBusy}
              error={react.error}
              onSubmit={(values) => choose(textIn(values, 'emoji') ?? '')}
            >
              <TextField label="Another emoji" name="emoji" required maxLength={32} />
            </Form>
          </Popover.Popup>
        </Popover.Positioner>
      </Popover.Portal>
    </Popover.Root>
  )
}

function WhoReacted({ messageId }: { messageId: string }) {
  const ask = useAsk(REACTIONS, { messageId })
  if (ask.data === undefined) return <Unanswered what="the reactions" ask={ask} />
  const reactions = ask.data.message?.reactions ?? []
  if (reactions.length === 0) return <p className="hint">Nobody reacts any more.</p>
  return (
    <dl className="who-reacted">
      {reactions.map(({ emoji, count, entities }) => (
        <div key={emoji}>
          <dt>{emoji}</dt>
          <dd>
            {entities.map(({ name }) => name).join(', ')}
            {count > entities.length && ` and ${count - entities.length} more`}
          </dd>
        </div>
      ))}
    </dl>
  )
}

function CopyUpTo({ message, spaceId, onCopied }: { message: Message; spaceId: string; onCopied(): void }) {
  const { spaces } = useSession().viewer
  const name = spaces.find(({ id }) => id === spaceId)?.name ?? 'this space'
  return <CopySpace space={{ id: spaceId, name }} last={message} onCopied={onCopied} />
}

function ConfirmDeletion({ message, onClose }: { message: Message; onClose(): void }) {
  const { connection, humanId } = useSession()
  const remove = useDo(async (_: null) =>
    payloadOf((await connection.ask(DELETE_MESSAGE, { messageId: message.id })).deleteMessage, 'DeleteMessagePayload'),
  )
  return (
    <div className="form">
      <blockquote className="quoted" dir="auto">
        {textOf(message).slice(0, 280) || 'A message without text'}
      </blockquote>
      <p className="hint">
        Its text, files and reactions are removed for everybody, and agents no longer read them. Others still see that
        {message.sender.id === humanId ? ' you deleted' : ` ${message.sender.name} had sent`} a message. This cannot be
        undone.
      </p>
      <Refused error={remove.error} />
      <div className="form-end">
        <Button onClick={onClose}>Cancel</Button>
        <Button look="danger" isBusy={remove.isBusy} onClick={() => remove.start(null, onClose)}>
          Delete the message
        </Button>
      </div>
    </div>
  )
}
