// The console's own icons, with one stroke width and size.
const PATHS = {
  menu: 'M3 6h14M3 10h14M3 14h14',
  search: 'M9 15A6 6 0 1 0 9 3a6 6 0 0 0 0 12Zm8 2-3.8-3.8',
  plus: 'M10 4v12M4 10h12',
  clip: 'm15.500 9.500-5.800 5.800a3.500 3.500 0 0 1-5-5l6.500-6.500a2.300 2.300 0 0 1 3.300 3.300L8.200 13.400a1.100 1.100 0 0 1-1.600-1.600l5.500-5.500',
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
  branch: 'M6 4v12M6 8c0 3 8 1 8 5M6 4.5h.01M14 13.500h.01',
  chart: 'M4 16V9m4 7V5m4 11v-5m4 5V8',
  list: 'M7 5h10M7 10h10M7 15h10M3.500 5h.01M3.500 10h.01M3.500 15h.01',
  sun: 'M10 13a3 3 0 1 0 0-6 3 3 0 0 0 0 6Zm0-11v2m0 12v2M2 10h2m12 0h2M4.500 4.500l1.400 1.400m8.200 8.200 1.400 1.400m0-11-1.400 1.400M5.900 14.100l-1.400 1.400',
  moon: 'M16 11.500A6.500 6.500 0 1 1 8.500 4a5 5 0 0 0 7.500 7.500Z',
  out: 'M8 4H4v12h4m4-9 3 3-3 3m3-3H8',
  info: 'M10 17a7 7 0 1 0 0-14 7 7 0 0 0 0 14Zm0-8v4.500M10 6.500h.01',
  chevron: 'm7 5 5 5-5 5',
  mail: 'M3 5h14v10H3zm0 .500 7 5.500 7-5.500',
  link: 'M8.500 11.500a3 3 0 0 0 4.300 0l2.500-2.500a3 3 0 0 0-4.300-4.300L10 5.700m1.500 2.800a3 3 0 0 0-4.300 0l-2.500 2.500A3 3 0 0 0 9 15.300l1-1',
  copy: 'M7 7V4h9v9h-3M4 7h9v9H4z',
  wrench:
    'M12.500 3.500a4 4 0 0 0-3.700 5.400L3.500 14.200l2.300 2.300 5.300-5.300a4 4 0 0 0 5.200-4.900l-2.500 2.500-2.300-.6-.6-2.300 2.500-2.400Z',
  space: 'M3 4h14v9H8l-3 3v-3H3z',
  clock: 'M10 17a7 7 0 1 0 0-14 7 7 0 0 0 0 14Zm0-11v4l2.500 2',
  lock: 'M5 9h10v8H5zM7 9V6.500a3 3 0 0 1 6 0V9m-3 3v2',
  file: 'M5 3h7l3.500 3.500V17H5zM12 3v3.500h3.500',
  unlock: 'M5 9h10v8H5zM7 9V5.500a3 3 0 0 1 5.700-1.300M10 12v2',
  record: 'M5 3h8l3 3v11H5zM13 3v3h3M8 10h5m-5 3h5',
  dots: 'M4.500 10h.800M9.600 10h.800M14.700 10h.800',
  smile:
    'M10 17a7 7 0 1 0 0-14 7 7 0 0 0 0 14Zm-3-5c.8 1.200 1.800 1.800 3 1.800s2.200-.600 3-1.800M7.800 8h.01M12.200 8h.01',
  reply: 'M8 4 3 9l5 5M3 9h9a5 5 0 0 1 5 5v2',
  quote: 'M4 5h12M8 9h8M8 13h8M4 9v4',
  pen: 'M4 16l.700-3.200L13 4.500a1.600 1.600 0 0 1 2.300 0l.200.200a1.600 1.600 0 0 1 0 2.300L7.200 15.300 4 16Z',
  bin: 'M4 6h12M8 6V4h4v2m-6 0 .7 10h6.600L14 6',
  mind: 'M10 4a3 3 0 0 0-5.500 1.700A3 3 0 0 0 4 11a3 3 0 0 0 3 4.500c1.500 0 3-.9 3-2.500V4Zm0 0a3 3 0 0 1 5.500 1.700A3 3 0 0 1 16 11a3 3 0 0 1-3 4.500c-1.500 0-3-.9-3-2.500',
} as const

export type IconName = keyof typeof PATHS

/** A decorative icon, next to words or in a labelled button; hidden from screen readers. */
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
