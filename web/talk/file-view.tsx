import { useState } from 'react'
import type { MessagePart } from '../../client/index.ts'
import { useSession } from '../session.tsx'
import { Dialog } from '../ui/dialog.tsx'
import { Icon } from '../ui/icons.tsx'
import { FILE_ADDRESS } from './operations.ts'

type SentFile = Extract<MessagePart, { __typename: 'FilePart' }>['file']

/** Files are loaded from the server under the address that the browser uses for this page. */
function hereOf(url: string): string {
  const { pathname, search } = new URL(url)
  return pathname + search
}

export function sizeInWords(bytes: number): string {
  if (bytes < 1000) return `${bytes} B`
  return bytes < 1_000_000 ? `${Math.ceil(bytes / 1000)} kB` : `${(bytes / 1_000_000).toFixed(1)} MB`
}

/** An address is renewed this long before it expires, because a request takes time. */
const MARGIN_MS = 60_000
const hasExpired = (url: string) => {
  const expires = Number(new URL(url).searchParams.get('expires') ?? Number.NaN)
  return expires * 1000 - MARGIN_MS < Date.now()
}

/** Returns a file whose address works. The first address is valid for an hour, but the page can be open for longer. */
function useFile(file: SentFile) {
  const { connection } = useSession()
  const [renewed, setRenewed] = useState(file)
  const current = hasExpired(file.url) ? renewed : file
  async function renew(): Promise<SentFile> {
    if (!hasExpired(current.url)) return current
    const { node } = await connection.ask(FILE_ADDRESS, { id: file.id })
    const found = node?.__typename === 'File' ? node : current
    setRenewed(found)
    return found
  }
  return { current, renew }
}

/** A file of a message: an image that can be enlarged, or a link that loads the file. */
export function FileView({ file }: { file: SentFile }) {
  const { current, renew } = useFile(file)
  const { name, size, url, thumbnailUrl, width, height } = current
  const [isOpen, setOpen] = useState(false)
  const load = async () => {
    const link = document.createElement('a')
    link.href = hereOf((await renew()).url)
    link.download = name
    link.click()
  }
  const link = (
    <a
      className="file-link"
      href={hereOf(url)}
      download={name}
      dir="auto"
      onClick={(event) => {
        if (!hasExpired(url)) return
        event.preventDefault()
        load().catch(() => {})
      }}
    >
      {name}
    </a>
  )
  const line = (
    <>
      {link} <span className="note">· {sizeInWords(size)}</span>
    </>
  )
  if (thumbnailUrl === null) {
    return (
      <p className="file file-frame">
        <Icon name="file" />
        <span>{line}</span>
      </p>
    )
  }
  const picture = { width: width ?? undefined, height: height ?? undefined }
  const open = () =>
    renew()
      .catch(() => {})
      .finally(() => setOpen(true))
  return (
    <div className="file picture">
      <button type="button" aria-label={`Enlarge ${name}`} onClick={open}>
        <img
          alt={name}
          {...picture}
          src={hereOf(thumbnailUrl)}
          loading="lazy"
          onError={() => void renew().catch(() => {})}
        />
      </button>
      <p>{line}</p>
      <Dialog title={name} open={isOpen} onOpenChange={setOpen}>
        <img alt={name} className="enlarged" {...picture} src={hereOf(url)} />
      </Dialog>
    </div>
  )
}
