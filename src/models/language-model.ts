import type { LanguageModel } from 'ai'

/**
 * Types of the model interface. They are derived from types of `ai`, because `ai` does not export them and their own
 * package is only a transitive dependency.
 */
export type LanguageModelV4 = Extract<LanguageModel, { specificationVersion: 'v4' }>

export type CallOptions = Parameters<LanguageModelV4['doStream']>[0]

export type PromptMessage = CallOptions['prompt'][number]

type ToolResultPart = Extract<Extract<PromptMessage, { role: 'tool' }>['content'][number], { type: 'tool-result' }>

export type ToolResultOutput = ToolResultPart['output']

export type Generated = Awaited<ReturnType<LanguageModelV4['doGenerate']>>

export type StreamPart =
  Awaited<ReturnType<LanguageModelV4['doStream']>>['stream'] extends ReadableStream<infer Part> ? Part : never
