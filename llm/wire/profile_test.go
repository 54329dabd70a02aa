package wire

import "testing"

func TestFamiliesAreKnownByTheirNames(t *testing.T) {
	openai := func(strict, encrypted, tokens bool) Profile {
		return Profile{Strict: strict, Encrypted: encrypted, CompletionTokens: tokens}
	}
	claude := func(strict bool, how Thinking) Profile {
		p := Profile{Strict: strict, Thinking: how}
		if strict {
			p.StrictTools = strictTools
		}
		return p
	}
	for name, want := range map[string]Profile{
		"gpt-5":                      openai(true, true, true),
		"gpt-5.2-codex":              openai(true, true, true),
		"gpt-5-mini-2025-08-07":      openai(true, true, true),
		"openai/gpt-6":               openai(true, true, true),
		"o3":                         openai(true, true, true),
		"o4-mini-2025-04-16":         openai(true, true, true),
		"o1":                         openai(true, true, true),
		"o1-mini":                    openai(false, false, true),
		"gpt-5-chat-latest":          openai(true, false, true),
		"gpt-5.1-chat-latest":        openai(true, false, true),
		"gpt-4o":                     openai(true, false, false),
		"gpt-4o-mini-2024-07-18":     openai(true, false, false),
		"GPT-4.1-nano":               openai(true, false, false),
		"gpt-4o-2024-05-13":          {},
		"gpt-4-turbo":                {},
		"gpt-4":                      {},
		"gpt-3.5-turbo":              {},
		"chatgpt-4o-latest":          {},
		"gpt-oss-120b":               {},
		"grok-4-fast":                openai(false, true, false),
		"grok-2":                     {},
		"claude-3-5-sonnet-20241022": claude(false, ThinkingNever),
		"claude-3-haiku-20240307":    claude(false, ThinkingNever),
		"claude-3-7-sonnet-latest":   claude(false, ThinkingBudget),
		"claude-sonnet-4-20250514":   claude(false, ThinkingBudget),
		"claude-opus-4-1-20250805":   claude(true, ThinkingBudget),
		"claude-sonnet-4-5":          claude(true, ThinkingBudget),
		"us.anthropic.claude-haiku-4-5-20251001-v1:0": claude(true, ThinkingBudget),
		"anthropic/claude-opus-4.6":                   claude(true, ThinkingLevel),
		"claude-sonnet-5":                             claude(true, ThinkingLevel),
		"claude-2.1":                                  claude(false, ThinkingNever),
		"claude-x":                                    {},
		"models/gemini-2.5-pro":                       {Thinking: ThinkingBudget},
		"gemini-3-pro-preview":                        {Thinking: ThinkingLevel},
		"gemini-2.0-flash":                            {Thinking: ThinkingNever},
		"gemini-flash-latest":                         {},
		"qwen3-32b":                                   {},
		"deepseek-chat":                               {},
		"llama3.2":                                    {},
		"house":                                       {},
		"":                                            {},
	} {
		if got := ProfileOf(name); got != want {
			t.Errorf("%s: %+v, not %+v", name, got, want)
		}
	}
}
