package chat

import "encoding/json"

// A Request is a request to a model for one answer.
type Request struct {
	Model    string // as the provider names it
	Messages []Message
	Tools    []Tool
	Options  Options
}

// A Tool is a function that a model may call. Names are dotted, as inside the bridge;
// adapters encode them for wires where that is illegal.
type Tool struct {
	Name        string
	Description string
	Parameters  json.RawMessage // JSON Schema of an object
	Strict      bool            // the schema fits the strict variant of providers that have one
}

// Options shape an answer. Zero values leave it to the provider.
type Options struct {
	Temperature       *float64
	TopP              *float64
	MaxTokens         int
	Stop              []string
	Seed              *int64
	ToolChoice        ToolChoice
	ParallelToolCalls *bool
	ReasoningEffort   string          // none, minimal, low, medium, high; adapters map it
	Format            json.RawMessage // JSON Schema the text must fit; nil for free text
	FormatName        string
}

// ToolChoice is the permission, duty or prohibition to call tools.
type ToolChoice struct {
	Mode string // "" or auto, none, required, tool
	Name string // of the tool, with mode tool
}
