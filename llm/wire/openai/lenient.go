package openai

import (
	"encoding/json"
	"math"
	"strings"

	"github.com/aibridge/aibridge/llm/chat"
	"github.com/aibridge/aibridge/llm/wire"
)

// The fields that services on this wire send in more than one form.

// content is text, null, or a list of parts.
type content struct {
	text  wire.Text
	parts []contentPart
}

// A contentPart is a piece of content: text or, at some services, reasoning between the
// texts.
type contentPart struct {
	Type     string    `json:"type"`
	Text     wire.Text `json:"text"`
	Refusal  wire.Text `json:"refusal"`
	Thinking thought   `json:"thinking"`
	ImageURL imageURL  `json:"image_url"`
}

func (c *content) UnmarshalJSON(data []byte) error {
	c.text, c.parts = c.text[:0], c.parts[:0]
	if len(data) > 0 && data[0] == '[' {
		return json.Unmarshal(data, &c.parts)
	}
	return c.text.UnmarshalJSON(data)
}

// A thought is text, or a list of texts.
type thought struct{ wire.Text }

func (t *thought) UnmarshalJSON(data []byte) error {
	if len(data) == 0 || data[0] != '[' {
		return t.Text.UnmarshalJSON(data)
	}
	var list []struct {
		Text wire.Text `json:"text"`
	}
	err := json.Unmarshal(data, &list)
	for _, piece := range list {
		t.Text = append(t.Text, piece.Text...)
	}
	return err
}

// imageURL is a URL, or an object with one.
type imageURL string

func (u *imageURL) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '{' {
		var object struct {
			URL string `json:"url"`
		}
		err := json.Unmarshal(data, &object)
		*u = imageURL(object.URL)
		return err
	}
	return json.Unmarshal(data, (*string)(u))
}

// segment is an image with a URL, or with the data of a data URL.
func (u imageURL) segment() chat.Segment {
	s := chat.Segment{Type: chat.Image, MIMEType: "image/*", Data: string(u)}
	head, data, found := strings.Cut(strings.TrimPrefix(s.Data, "data:"), ",")
	if kind, coded := strings.CutSuffix(head, ";base64"); found && coded && strings.HasPrefix(s.Data, "data:") {
		s.MIMEType, s.Data = kind, data
	}
	return s
}

// A count is a number of tokens. A malformed one is 0, so that the answer is not lost.
type count int

func (c *count) UnmarshalJSON(data []byte) error {
	var n float64
	if json.Unmarshal(data, &n) == nil && n > 0 && n < math.MaxInt32 {
		*c = count(n)
	}
	return nil
}

type usage struct {
	PromptTokens     count `json:"prompt_tokens"`
	CompletionTokens count `json:"completion_tokens"`
	TotalTokens      count `json:"total_tokens"`
	CacheHitTokens   count `json:"prompt_cache_hit_tokens"` // DeepSeek
	CachedTokens     count `json:"cached_tokens"`           // Moonshot
	PromptDetails    struct {
		Cached     count `json:"cached_tokens"`
		CacheWrite count `json:"cache_write_tokens"` // OpenRouter
	} `json:"prompt_tokens_details"`
	CompletionDetails struct {
		Reasoning count `json:"reasoning_tokens"`
	} `json:"completion_tokens_details"`
}

func (u *usage) tokens() chat.Usage {
	output, reasoning := u.CompletionTokens, u.CompletionDetails.Reasoning
	if reasoning > 0 && u.TotalTokens == u.PromptTokens+output+reasoning { // xAI counts it apart
		output += reasoning
	}
	return chat.Usage{
		Input:      int(u.PromptTokens),
		Output:     int(output),
		Cached:     int(max(u.PromptDetails.Cached, u.CacheHitTokens, u.CachedTokens)),
		CacheWrite: int(u.PromptDetails.CacheWrite),
		Reasoning:  int(reasoning),
	}
}

// reasonOf translates the reason for the end of an answer, from the words of OpenAI and
// of other services.
func reasonOf(reason string) chat.FinishReason {
	switch strings.ToLower(reason) {
	case "stop", "eos", "eos_token", "stop_sequence", "end_turn":
		return chat.EndTurn
	case "length", "max_tokens", "model_length":
		return chat.MaxTokens
	case "tool_calls", "tool_use", "function_call":
		return chat.ToolUse
	case "content_filter", "safety", "refusal":
		return chat.Refused
	}
	return chat.Broken
}
