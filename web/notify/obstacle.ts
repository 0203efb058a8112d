/** Why a device gets no push messages, and what the person can do. */
export interface Obstacle {
  reason: string
  remedy: string
}

/** The facts about a browser that decide whether it can receive push messages. */
export interface Browser {
  /** Whether the browser has all functions that push messages need. */
  canPush: boolean
  /** Whether the page was opened over https or from this machine. */
  isSecure: boolean
  /** Whether this is an iPhone or iPad, where only pages on the home screen receive push messages. */
  isApple: boolean
  permission: NotificationPermission
}

/** Returns why this browser cannot receive push messages now; null if it can, or can after the person has given permission. */
export function obstacleOf(publicKey: string | null, browser: Browser): Obstacle | null {
  if (publicKey === null)
    return {
      reason: 'This server cannot send push messages: it cannot read its push key.',
      remedy: 'Ask its operator to look at the log of the server.',
    }
  if (!browser.isSecure)
    return {
      reason: 'Push messages need an address that begins with https://, and you opened Parley without it.',
      remedy: 'Ask an admin for the https:// address of this server.',
    }
  if (!browser.canPush && browser.isApple)
    return {
      reason: 'On an iPhone or iPad, only apps on the home screen receive push messages.',
      remedy: 'Tap “Share”, then “Add to Home Screen”, and open Parley from there.',
    }
  if (!browser.canPush)
    return {
      reason: 'This browser cannot receive push messages here. Many browsers cannot in private windows.',
      remedy: 'Open Parley in an ordinary window, or in another browser.',
    }
  if (browser.permission === 'denied')
    return {
      reason: 'This browser blocks notifications from this site.',
      remedy: 'Click the icon to the left of the address, allow notifications, and come back.',
    }
  return null
}
