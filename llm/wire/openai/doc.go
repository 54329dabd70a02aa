// Package openai is the adapter of Chat Completions, the API that most services offer:
// OpenAI, DeepSeek, Ollama, vLLM, Groq and many more. A [Dialect] names their
// differences one by one; the package knows no service by its name.
package openai
