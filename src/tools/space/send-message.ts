import type { Speech, Tool } from '../tool.ts'

/** Posts in the active space. Members see the text while the model writes it. */
export function sendMessageTool(speech: Speech): Tool {
  return {
    name: 'send_message',
    description:
      'Say something in your active space. This is the only way to be heard: your own text is seen by nobody.',
    inputSchema: {
      type: 'object',
      properties: { text: { type: 'string', description: 'What to say.' } },
      required: ['text'],
    },
    presence: { type: 'speech', field: 'text' },
    execution: null,
    async execute({ text }, use) {
      const message = await speech.post(use, String(text))
      return { success: true, messageId: message.id }
    },
  }
}
