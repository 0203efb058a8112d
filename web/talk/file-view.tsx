import { useState } from 'react'
import type { MessagePart } from '../../client/index.ts'
import { Dialog } from '../ui/dialog.tsx'

type SentFile = Extract<MessagePart, { __typename: 'FilePart' }>['file']

/** Files load from the address of this page, under which the browser reaches the server. */
function hereOf(url: string): string {
  const { pathname, search } = new URL(url)
  return pathname + search
}

export function sizeInWords(bytes: number): string {
  if (bytes < 1000) return `${bytes} B`
  return bytes < 1_000_000 ? `${Math.ceil(bytes / 1000)} kB` : `${(bytes / 1_000_000).toFixed(1)} MB`
}

/** A file of a message: an image with a large view, or a link that loads the file. */
export function FileView({ file }: { file: SentFile }) {
  const { name, size, url, thumbnailUrl, width, height } = file
  const [isOpen, setOpen] = useState(false)
  const link = (
    <a className="file-link" href={hereOf(url)} download={name} dir="auto">
      {name} <span className="plain-note">{sizeInWords(size)}</span>
    </a>
  )
  if (thumbnailUrl === null) return <p className="file">{link}</p>
  const picture = { width: width ?? undefined, height: height ?? undefined }
  return (
    <div className="file picture">
      <button type="button" aria-label={`Enlarge ${name}`} onClick={() => setOpen(true)}>
        <img alt={name} {...picture} src={hereOf(thumbnailUrl)} loading="lazy" />
      </button>
      {link}
      <Dialog title={name} open={isOpen} onOpenChange={setOpen}>
        <img alt={name} className="enlarged" {...picture} src={hereOf(url)} />
      </Dialog>
    </div>
  )
}
