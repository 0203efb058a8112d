import { encode } from 'uqr'

/** The width of the light border that cameras need, in modules. */
const BORDER = 4

/** A QR code. `label` is its text for screen readers. */
export function QrCode({ label, text }: { label: string; text: string }) {
  const { data, size } = encode(text, { border: BORDER })
  const dark = data.flatMap((row, y) => row.flatMap((isDark, x) => (isDark ? [`M${x} ${y}h1v1h-1z`] : [])))
  return (
    <svg className="qr-code" role="img" aria-label={label} viewBox={`0 0 ${size} ${size}`} shapeRendering="crispEdges">
      <rect width={size} height={size} fill="#fff" />
      <path d={dark.join('')} fill="#000" />
    </svg>
  )
}
