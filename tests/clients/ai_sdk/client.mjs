// Runs the Vercel AI SDK against a server: both of its providers, both APIs.
// URL and KEY name the server; prints the results as one JSON object.
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { Output, generateText, stepCountIs, streamText, tool } from "ai";
import OpenAI from "openai";
import { z } from "zod";

const url = `${process.env.URL}/v1`;
const apiKey = process.env.KEY;
const own = createOpenAI({ baseURL: url, apiKey });
const compatible = createOpenAICompatible({
  name: "recollect",
  baseURL: url,
  apiKey,
  supportsStructuredOutputs: true,
});

const models = {
  compatible: compatible("m1"),
  completions: own.chat("m1"),
  responses: own.responses("m1"),
};
const weather = tool({
  description: "The weather of a city.",
  inputSchema: z.object({ city: z.string() }),
  execute: async ({ city }) => `Rain in ${city}.`,
});

async function streamed(model) {
  const result = streamText({ model, prompt: "stream", maxRetries: 0 });
  let text = "";
  for await (const part of result.textStream) text += part;
  return { text, reason: await result.finishReason };
}

async function withTool(model) {
  const result = streamText({
    model,
    prompt: "tool",
    tools: { get_weather: weather },
    stopWhen: stepCountIs(3),
    maxRetries: 0,
  });
  await result.consumeStream();
  const calls = (await result.steps).flatMap((step) => step.toolCalls);
  const theirs = calls.filter((call) => !call.providerExecuted);
  return { text: await result.text, calls: theirs.map((call) => call.toolName) };
}

async function structured(model) {
  const result = await generateText({
    model,
    prompt: "structured",
    output: Output.object({ schema: z.object({ city: z.string() }) }),
    maxRetries: 0,
  });
  return result.output;
}

async function cancelled(model) {
  const controller = new AbortController();
  const result = streamText({
    model,
    prompt: "cancel",
    abortSignal: controller.signal,
    maxRetries: 0,
    onError: () => {},
  });
  for await (const part of result.fullStream) {
    if (part.type === "text-delta") controller.abort();
    if (part.type === "abort") return true;
  }
  return false;
}

async function official() {
  const client = new OpenAI({ baseURL: url, apiKey, maxRetries: 0 });
  const messages = [{ role: "user", content: "stream" }];
  const chat = await client.chat.completions.stream({ model: "m1", messages }).finalChatCompletion();
  const response = await client.responses.stream({ model: "m1", input: "stream" }).finalResponse();
  return { chat: chat.choices[0].message.content, response: response.output_text };
}

const seen = { official: await official() };
for (const [name, model] of Object.entries(models)) {
  seen[name] = {
    streamed: await streamed(model),
    tool: await withTool(model),
    structured: await structured(model),
    cancelled: await cancelled(model),
  };
}
console.log(JSON.stringify(seen));
