import type { Viewer } from '../../access/viewer.ts'
import { checkSchemasOfTool, checkTool, type ToolInput } from '../../agents/custom-tools.ts'
import { BadInputError } from '../../lib/errors.ts'
import { newId } from '../../lib/ids.ts'
import { type Json, type JsonObject, toJson } from '../../lib/json.ts'
import { checkInput } from '../../lib/schema-checks.ts'
import { checkJsonSize } from '../../lib/validate.ts'
import type { Platform } from '../../platform/platform.ts'
import { isAnsweredOutside } from '../../rules/call-answers.ts'
import { requireAdmin } from '../../rules/permissions.ts'
import { ToolFailure } from '../tool.ts'
import type { GuardedHttp } from './guarded-http.ts'
import { ownTool } from './own-tool.ts'

export interface TriedTool {
  ok: boolean
  output: Json
  error: string | null
  durationMs: number
}

/** Lets admins test a tool before they give it to an agent. */
export interface ToolTrial {
  /**
   * Admins only: calls a tool as a run would.
   * @throws ForbiddenError, or BadInputError with the field at fault
   */
  tryTool(viewer: Viewer, given: { tool: ToolInput; input: unknown }): Promise<TriedTool>
}

/** A person waits for the result, so the time limit is shorter than in a run. */
const LONGEST_TRIAL_MS = 60_000

export function createToolTrial({ config }: Pick<Platform, 'config'>, { http }: { http: GuardedHttp }): ToolTrial {
  return {
    async tryTool(viewer, { tool: given, input }) {
      requireAdmin(viewer, 'try tools')
      const { execution } = given
      if (isAnsweredOutside({ execution })) {
        const who = execution === 'SPACE' ? 'Members of a space answer' : 'A service answers'
        const message = `${who} calls to ${execution} tools, so there is nothing to call. Try an HTTP tool.`
        throw new BadInputError(message, 'input.tool.execution')
      }
      await checkSchemasOfTool(given, 'input.tool')
      const { headers, ...settings } = checkTool(given, 'input.tool', config.limits)
      checkJsonSize(input, 'input.input')
      const checked = toJson(input) as JsonObject
      const fault = await checkInput({ ...settings, isForeign: true }, checked, { id: 'admins', isPatient: true })
      if (fault !== null) throw new BadInputError(fault, 'input.input')
      const timeoutMs = Math.min(settings.timeoutMs, LONGEST_TRIAL_MS)
      const tool = ownTool({ ...settings, timeoutMs }, { http, headers: () => headers ?? {} })
      const startedAt = performance.now()
      const took = () => Math.round(performance.now() - startedAt)
      try {
        const use = { callId: newId('tcl'), signal: AbortSignal.timeout(LONGEST_TRIAL_MS + 1_000) }
        const { output } = (await tool.executeApproved?.(checked, use)) ?? { output: null }
        return { ok: true, output, error: null, durationMs: took() }
      } catch (error) {
        if (!(error instanceof ToolFailure)) throw error
        const { details = null } = error.returned
        return { ok: false, output: details, error: error.message, durationMs: took() }
      }
    },
  }
}
