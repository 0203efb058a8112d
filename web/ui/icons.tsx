// The console's own icons, with one stroke width and size.
const PATHS = {
  menu: 'M3 6h14M3 10h14M3 14h14',
  search: 'M9 15A6 6 0 1 0 9 3a6 6 0 0 0 0 12Zm8 2-3.8-3.8',
  plus: 'M10 4v12M4 10h12',
  clip: 'm15.5 9.5-5.8 5.8a3.5 3.5 0 0 1-5-5l6.5-6.5a2.3 2.3 0 0 1 3.3 3.3L8.2 13.4a1.1 1.1 0 0 1-1.6-1.6l5.5-5.5',
  send: 'M10 16V4m0 0L5 9m5-5 5 5',
  stop: 'M6 6h8v8H6z',
  pause: 'M7 5v10M13 5v10',
  play: 'm7 5 8 5-8 5z',
  down: 'M10 4v12m0 0 5-5m-5 5-5-5',
  check: 'm4 10.5 4 4 8-9',
  cross: 'm5 5 10 10M15 5 5 15',
  retry: 'M4 10a6 6 0 1 1 1.8 4.3M4 16v-4h4',
  bell: 'M5 14h10l-1.2-2V9a3.8 3.8 0 0 0-7.6 0v3L5 14Zm3.5 2.5h3',
  people:
    'M7 10a3 3 0 1 0 0-6 3 3 0 0 0 0 6Zm-5 6c0-2.5 2-4 5-4s5 1.5 5 4M13 4.3A3 3 0 0 1 13 10m1.5 2.2c2 .5 3.5 1.9 3.5 3.8',
  agent: 'M4 7h12v8H4zM10 7V4m-2.5 6.5v1m5-1v1M2 10v2m16-2v2',
  branch: 'M6 4v12M6 8c0 3 8 1 8 5M6 4.5h.01M14 13.5h.01',
  chart: 'M4 16V9m4 7V5m4 11v-5m4 5V8',
  list: 'M7 5h10M7 10h10M7 15h10M3.5 5h.01M3.5 10h.01M3.5 15h.01',
  sun: 'M10 13a3 3 0 1 0 0-6 3 3 0 0 0 0 6Zm0-11v2m0 12v2M2 10h2m12 0h2M4.5 4.5l1.4 1.4m8.2 8.2 1.4 1.4m0-11-1.4 1.4M5.9 14.1l-1.4 1.4',
  moon: 'M16 11.5A6.5 6.5 0 1 1 8.5 4a5 5 0 0 0 7.5 7.5Z',
  out: 'M8 4H4v12h4m4-9 3 3-3 3m3-3H8',
  info: 'M10 17a7 7 0 1 0 0-14 7 7 0 0 0 0 14Zm0-8v4.5M10 6.5h.01',
  chevron: 'm7 5 5 5-5 5',
  mail: 'M3 5h14v10H3zm0 .5 7 5.5 7-5.5',
  link: 'M8.5 11.5a3 3 0 0 0 4.3 0l2.5-2.5a3 3 0 0 0-4.3-4.3L10 5.7m1.5 2.8a3 3 0 0 0-4.3 0l-2.5 2.5A3 3 0 0 0 9 15.3l1-1',
  copy: 'M7 7V4h9v9h-3M4 7h9v9H4z',
  wrench: 'M12.5 3.5a4 4 0 0 0-3.7 5.4L3.5 14.2l2.3 2.3 5.3-5.3a4 4 0 0 0 5.2-4.9l-2.5 2.5-2.3-.6-.6-2.3 2.5-2.4Z',
  space: 'M3 4h14v9H8l-3 3v-3H3z',
  clock: 'M10 17a7 7 0 1 0 0-14 7 7 0 0 0 0 14Zm0-11v4l2.5 2',
  lock: 'M5 9h10v8H5zM7 9V6.5a3 3 0 0 1 6 0V9m-3 3v2',
  file: 'M5 3h7l3.5 3.5V17H5zM12 3v3.5h3.5',
  unlock: 'M5 9h10v8H5zM7 9V5.5a3 3 0 0 1 5.7-1.3M10 12v2',
  record: 'M5 3h8l3 3v11H5zM13 3v3h3M8 10h5m-5 3h5',
  dots: 'M4.5 10h.8M9.6 10h.8M14.7 10h.8',
  smile: 'M10 17a7 7 0 1 0 0-14 7 7 0 0 0 0 14Zm-3-5c.8 1.2 1.8 1.8 3 1.8s2.2-.6 3-1.8M7.8 8h.01M12.2 8h.01',
  reply: 'M8 4 3 9l5 5M3 9h9a5 5 0 0 1 5 5v2',
  quote: 'M4 5h12M8 9h8M8 13h8M4 9v4',
  pen: 'M4 16l.7-3.2L13 4.5a1.6 1.6 0 0 1 2.3 0l.2.2a1.6 1.6 0 0 1 0 2.3L7.2 15.3 4 16Z',
  bin: 'M4 6h12M8 6V4h4v2m-6 0 .7 10h6.6L14 6',
  mind: 'M10 4a3 3 0 0 0-5.5 1.7A3 3 0 0 0 4 11a3 3 0 0 0 3 4.5c1.5 0 3-.9 3-2.5V4Zm0 0a3 3 0 0 1 5.5 1.7A3 3 0 0 1 16 11a3 3 0 0 1-3 4.5c-1.5 0-3-.9-3-2.5',
  at: 'M13 7v3.5a2 2 0 0 0 4 0V10a7 7 0 1 0-3 5.7M13 10a3 3 0 1 0-6 0 3 3 0 0 0 6 0Z',
} as const

export type IconName = keyof typeof PATHS

/** A decorative icon next to words or in a labelled button. Hidden from screen readers. */
export function Icon({ name, size = 18 }: { name: IconName; size?: number }) {
  return (
    <svg
      className="icon"
      width={size}
      height={size}
      viewBox="0 0 20 20"
      fill="none"
      stroke="currentColor"
      strokeWidth="1.6"
      strokeLinecap="round"
      strokeLinejoin="round"
      aria-hidden="true"
    >
      <path d={PATHS[name]} />
    </svg>
  )
}
