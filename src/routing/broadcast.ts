import { decide, type Route } from './route.ts'

/** BROADCAST: a message wakes every agent member but its sender. */
export const broadcast: Route = (message, room) =>
  decide(
    message,
    room,
    () => 'BROADCAST wakes every agent member but the sender.',
    () => '',
  )
