// Package openai speaks Chat Completions, the wire that most services offer:
// OpenAI, DeepSeek, Ollama, vLLM, Groq and many more. They differ in details,
// which a [Dialect] names one by one; no service is known by its name here.
package openai
