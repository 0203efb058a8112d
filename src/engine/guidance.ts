import type { Tool } from '../tools/tool.ts'

/** How to act with the tools at hand: a line for each that needs one. */
export function guidanceFor(tools: Map<string, Tool>): string[] {
  const lines: string[] = []
  if (tools.has('send_message')) {
    lines.push(
      '- You are heard only through send_message, in your active space ([ACTIVE]). What you write outside of it is internal: nobody sees it.',
      '- To speak in another of your spaces, call enter_space first. What you read in one space you carry to another only on purpose.',
      '- When you are done, end with one short sentence for yourself that says what you did.',
    )
  }
  return lines
}
