import { useEffect, useRef, useState } from 'react'
import { payloadOf } from '../../client/index.ts'
import type { ConsoleAgentSettingsFragment, UpdateAgentInput } from '../../generated/graphql.ts'
import { useDo } from '../ask.ts'
import { useSession } from '../session.tsx'
import { AreaField, CheckField, Form, numberIn, SelectField, TextField, textIn } from '../ui/field.tsx'
import { jsonIn } from './json-input.ts'
import { ModelField } from './model-field.tsx'
import { UPDATE_AGENT } from './operations.ts'

/** Settings that this form does not change. */
type Settings = Omit<UpdateAgentInput, 'id'>

/** Edits an agent's instructions and model settings. */
export function AgentSettings({ agent }: { agent: ConsoleAgentSettingsFragment }) {
  const { connection } = useSession()
  const [status, setStatus] = useState('')
  const form = useRef<HTMLDivElement>(null)
  /** The values of the form when it opened. */
  const loaded = useRef<Settings | null>(null)
  useEffect(() => {
    const element = form.current?.querySelector('form') ?? null
    loaded.current = element === null ? null : settingsIn(new FormData(element))
  }, [])
  const { internals } = agent
  const save = useDo(async (values: FormData) => {
    setStatus('')
    const settings = settingsIn(values)
    const asDraft = values.get('asDraft') === 'on'
    const changes = asDraft && loaded.current !== null ? changedIn(settings, loaded.current) : settings
    const input = { id: agent.id, ...changes, asDraft, versionNote: textIn(values, 'versionNote') }
    payloadOf((await connection.ask(UPDATE_AGENT, { input })).updateAgent, 'UpdateAgentPayload')
    if (!asDraft) loaded.current = settings
    setStatus(asDraft ? 'Saved as a draft. Publish it under Versions.' : 'Saved. Runs that start from now on use it.')
  })
  if (internals === null) return null
  const phases = internals.phases.map(({ fromStep, toolChoice, activeTools, model, modelSettings }) => ({
    fromStep,
    toolChoice,
    ...(activeTools === null ? {} : { activeTools }),
    ...(model === null ? {} : { model }),
    ...(modelSettings === null ? {} : { modelSettings }),
  }))
  return (
    <div ref={form}>
      <Form label="Settings" submit="Save" isBusy={save.isBusy} error={save.error} onSubmit={save.start}>
        <div className="columns">
          <TextField label="Name" name="name" defaultValue={agent.name} required maxLength={200} />
          <ModelField label="Model" name="model" defaultValue={agent.model} required />
        </div>
        <TextField
          label="Description"
          name="description"
          defaultValue={agent.description ?? ''}
          hint="One line for people, and for other agents, which decide by it whom to involve."
        />
        <AreaField
          label="Instructions"
          name="instructions"
          defaultValue={internals.instructions}
          rows={6}
          required
          hint="Say who the agent is, what it does and how. The model reads this before each answer."
        />
        <details
          className="fold"
          // The browser shows its message at an invalid field, which must therefore be visible.
          onInvalidCapture={(event) => {
            event.currentTarget.open = true
          }}
        >
          <summary>Advanced</summary>
          <div className="form">
            <TextField
              label="Fallback models"
              name="fallbackModels"
              defaultValue={internals.fallbackModels.join(', ')}
              hint="Tried in order when the model’s provider fails; separated by commas"
            />
            <div className="columns">
              <TextField
                label="Maximum steps per run"
                name="maxSteps"
                type="number"
                min={1}
                defaultValue={internals.maxSteps}
                hint="Calls to the model. Then the run ends."
              />
              <TextField
                label="Maximum tool calls per run"
                name="maxToolCalls"
                type="number"
                min={1}
                defaultValue={internals.maxToolCalls}
              />
              <TextField
                label="Concurrent runs"
                name="maxConcurrentRuns"
                type="number"
                min={1}
                defaultValue={internals.maxConcurrentRuns}
                hint="Further runs are queued."
              />
              <TextField
                label="Token limit per run"
                name="tokenBudget"
                type="number"
                min={1}
                defaultValue={internals.tokenBudget ?? ''}
                placeholder="no limit"
              />
            </div>
            <ModelSettings settings={internals.modelSettings} />
            <details className="fold">
              <summary>For experts</summary>
              <div className="form">
                <AreaField
                  label="Phases"
                  name="phases"
                  rows={3}
                  spellCheck={false}
                  defaultValue={phases.length === 0 ? '[]' : JSON.stringify(phases, null, 2)}
                  hint={
                    <>
                      JSON: which tools the model may or must use, from which step. For example, to make it use a tool
                      in its first step:{' '}
                      <code>
                        {'[{"fromStep": 0, "toolChoice": "REQUIRED"}, {"fromStep": 1, "toolChoice": "AUTO"}]'}
                      </code>
                    </>
                  }
                />
              </div>
            </details>
            <p className="hint">
              To represent an agent on another server, enter <code>a2a:</code> and the URL of its card as the model.
            </p>
          </div>
        </details>
        <div className="columns">
          <TextField
            label="Note for the version"
            name="versionNote"
            maxLength={1000}
            placeholder="Why it was changed"
          />
          <CheckField
            label="Keep as a draft"
            name="asDraft"
            hint="Runs continue with the published version until the draft is published."
          />
        </div>
        <p role="status" className="hint">
          {status !== ''
            ? status
            : `Memory: ${agent.mind.toLowerCase()}. Toolset: ${agent.toolset.toLowerCase().replace('_', ' ')}. These two cannot be changed.`}
        </p>
      </Form>
    </div>
  )
}

const EFFORTS = ['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max']
const TIERS = ['auto', 'default', 'flex', 'priority', 'standard', 'standard_only']
const choices = (names: readonly string[]) => [
  ['', 'the provider’s default'] as const,
  ...names.map((name) => [name, name] as const),
]

/** Settings of each model call. An empty field means the provider's default. */
function ModelSettings({ settings }: { settings: unknown }) {
  const set = (typeof settings === 'object' && settings !== null ? settings : {}) as Record<string, string | number>
  const number = (name: string) => ({ name, type: 'number', placeholder: 'default', defaultValue: set[name] ?? '' })
  return (
    <fieldset>
      <legend>Model settings</legend>
      <div className="columns">
        <TextField label="Temperature (0 to 2)" {...number('temperature')} min={0} max={2} step="any" />
        <TextField label="Top P (0 to 1)" {...number('topP')} min={0} max={1} step="any" />
        <TextField label="Maximum output tokens" {...number('maxOutputTokens')} min={1} max={1_000_000} />
        <SelectField
          label="Reasoning effort"
          name="reasoningEffort"
          defaultValue={set['reasoningEffort'] ?? ''}
          options={choices(EFFORTS)}
        />
        <SelectField
          label="Service tier"
          name="serviceTier"
          defaultValue={set['serviceTier'] ?? ''}
          options={choices(TIERS)}
        />
      </div>
    </fieldset>
  )
}

/** Null if all settings are the provider's defaults. */
function modelSettingsIn(values: FormData): Record<string, string | number> | null {
  const given = Object.entries({
    temperature: numberIn(values, 'temperature'),
    topP: numberIn(values, 'topP'),
    maxOutputTokens: numberIn(values, 'maxOutputTokens'),
    reasoningEffort: textIn(values, 'reasoningEffort'),
    serviceTier: textIn(values, 'serviceTier'),
  }).flatMap(([name, value]) => (value === null ? [] : [[name, value] as const]))
  return given.length === 0 ? null : Object.fromEntries(given)
}

function settingsIn(values: FormData): Settings {
  return {
    name: textIn(values, 'name') ?? '',
    description: textIn(values, 'description'),
    instructions: String(values.get('instructions') ?? ''),
    model: textIn(values, 'model') ?? '',
    fallbackModels: (textIn(values, 'fallbackModels') ?? '').split(/[\s,]+/).filter(Boolean),
    modelSettings: modelSettingsIn(values),
    maxSteps: numberIn(values, 'maxSteps') ?? undefined,
    maxToolCalls: numberIn(values, 'maxToolCalls') ?? undefined,
    maxConcurrentRuns: numberIn(values, 'maxConcurrentRuns') ?? undefined,
    tokenBudget: numberIn(values, 'tokenBudget'),
    phases: jsonIn(values, 'phases', 'Phases') as never,
  }
}

/** Returns only the changed fields, because the others could undo changes of an earlier draft. */
function changedIn(settings: Settings, before: Settings): Settings {
  const was = before as Record<string, unknown>
  return Object.fromEntries(
    Object.entries(settings).filter(([name, value]) => JSON.stringify(value) !== JSON.stringify(was[name])),
  )
}
