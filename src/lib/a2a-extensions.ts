/** The extension of A2A by which a card declares that messages with the same id take effect once. */
export const MESSAGE_ONCE_EXTENSION = 'urn:parley:a2a:message-once'
