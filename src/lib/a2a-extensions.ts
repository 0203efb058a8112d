/** An A2A extension. An agent card that lists it declares that messages with the same id take effect only once. */
export const MESSAGE_ONCE_EXTENSION = 'urn:parley:a2a:message-once'
