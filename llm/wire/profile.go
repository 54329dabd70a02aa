package wire

import (
	"regexp"
	"strconv"
	"strings"
)

// A Profile holds the abilities of a family of models, derived from the name of a
// model. The profile of an unknown model is empty.
type Profile struct {
	// Strict models observe the schemas of tools and answers strictly.
	Strict bool
	// StrictTools is the number of strict tools that a request may have, 0 any number.
	StrictTools int
	// Encrypted models reason, and return their reasoning encrypted.
	Encrypted bool
	// CompletionTokens models name the limit of an answer max_completion_tokens.
	CompletionTokens bool
	// Thinking is the way the models are asked to reason.
	Thinking Thinking
}

// Thinking is the way models are asked to reason.
type Thinking int

// The ways to ask a model to reason.
const (
	ThinkingUnknown Thinking = iota
	ThinkingNever            // they do not reason
	ThinkingBudget           // by a number of tokens
	ThinkingLevel            // by a level; the model chooses the amount
)

// families are profiles by the beginning of a name; the first that matches counts. The
// list is never changed.
var families = []struct {
	name *regexp.Regexp
	Profile
}{
	{regexp.MustCompile(`^o1-(mini|preview)`), Profile{CompletionTokens: true}},
	{regexp.MustCompile(`^gpt-5(\.\d+)?-chat`), Profile{Strict: true, CompletionTokens: true}},
	{regexp.MustCompile(`^(gpt-([5-9]|[1-9]\d)\b|o[1-9]\b|codex-)`), Profile{Strict: true, Encrypted: true, CompletionTokens: true}},
	{regexp.MustCompile(`^gpt-4o-2024-05-13`), Profile{}},
	{regexp.MustCompile(`^gpt-4(o|\.[1-9])`), Profile{Strict: true}},
	{regexp.MustCompile(`^grok-(3-mini|[4-9]|code)`), Profile{Encrypted: true}},
}

// ProfileOf is the profile of a model by its name, with or without its maker in front:
// "gpt-5", "openai/gpt-5", "us.anthropic.claude-sonnet-4-5-20250929".
func ProfileOf(model string) Profile {
	name := strings.ToLower(model)
	name = name[strings.LastIndexByte(name, '/')+1:]
	if at := strings.Index(name, "claude-"); at >= 0 {
		return claude(name[at:])
	}
	if strings.HasPrefix(name, "gemini-") {
		return gemini(name)
	}
	for _, f := range families {
		if f.name.MatchString(name) {
			return f.Profile
		}
	}
	return Profile{}
}

// claudeName is a line and its version in either order: claude-opus-4-1,
// claude-3-5-sonnet. A date may follow.
var claudeName = regexp.MustCompile(`^claude-(?:([a-z]+)-)?(\d)(?:[-.](\d)\b)?`)

// strictTools is the greatest number of strict tools in one request to Anthropic.
const strictTools = 20

func claude(name string) Profile {
	parts := claudeName.FindStringSubmatch(name)
	if parts == nil {
		return Profile{}
	}
	p := Profile{Thinking: ThinkingNever}
	switch v := version(parts[2], parts[3]); {
	case v >= 46:
		p.Thinking = ThinkingLevel
	case v >= 37:
		p.Thinking = ThinkingBudget
	}
	if v := version(parts[2], parts[3]); v >= 45 || v >= 41 && parts[1] == "opus" {
		p.Strict, p.StrictTools = true, strictTools
	}
	return p
}

var geminiName = regexp.MustCompile(`^gemini-(\d)(?:\.(\d))?`)

func gemini(name string) Profile {
	parts := geminiName.FindStringSubmatch(name)
	if parts == nil {
		return Profile{}
	}
	switch v := version(parts[1], parts[2]); {
	case v >= 30:
		return Profile{Thinking: ThinkingLevel}
	case v >= 25:
		return Profile{Thinking: ThinkingBudget}
	}
	return Profile{Thinking: ThinkingNever}
}

// version is 45 for 4 and 5.
func version(major, minor string) int {
	v, _ := strconv.Atoi(major)
	w, _ := strconv.Atoi(minor)
	return 10*v + w
}
