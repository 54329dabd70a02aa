package tools

import (
	"context"
	"encoding/json"
	"strings"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/llm/chat"
	"github.com/aibridge/aibridge/protocol"
)

// Door is the mark of the calls of tools as commands, and in the audit
// trail.
const Door = "tool"

// Kind is the type of a parameter's value, or of each of its values.
type Kind string

// The kinds of values.
const (
	String              Kind = "String"
	Boolean             Kind = "Boolean"
	Integer             Kind = "Integer" // of 64 bits
	Number              Kind = "Number"
	JSONObject          Kind = "JsonObject"
	JSONArray           Kind = "JsonArray"
	Timestamp           Kind = "Timestamp" // ISO 8601
	URI                 Kind = "Uri"
	EnumToken           Kind = "EnumToken"           // one of Enum
	AttachmentReference Kind = "AttachmentReference" // id of an attachment, a string
)

// Cardinality is the shape of a parameter: the number of its values. Whether it may be
// absent depends on Required alone.
type Cardinality string

// The cardinalities.
const (
	Single   Cardinality = "Single"
	Optional Cardinality = "Optional" // a single value, or null
	List     Cardinality = "List"     // an array of values
	Map      Cardinality = "Map"      // an object of values
)

// A Parameter is the declaration of one argument of a tool.
type Parameter struct {
	Name          string          `json:"name"`
	Description   string          `json:"description,omitempty"`
	Kind          Kind            `json:"kind"`
	Cardinality   Cardinality     `json:"cardinality,omitempty"` // Single if empty
	Required      bool            `json:"required,omitempty"`
	Enum          []string        `json:"enum,omitempty"` // the values allowed, of String, EnumToken and Integer
	CaseSensitive bool            `json:"case_sensitive,omitempty"`
	Example       json.RawMessage `json:"example,omitempty"`
}

// The values of Declaration.Risk.
const (
	RiskAsk  = "ask"  // every call needs the approval of a person
	RiskDeny = "deny" // no model may call it
)

// RiskOf translates the risk that a capability declares in its own words. A low or
// medium risk needs no approval; a high risk, or an unknown word, does.
func RiskOf(declared string) string {
	switch strings.ToLower(declared) {
	case "", "none", "low", "medium":
		return ""
	case RiskDeny, "forbidden":
		return RiskDeny
	}
	return RiskAsk
}

// Stricter is the stricter of two risks.
func Stricter(a, b string) string {
	if a == RiskDeny || b == RiskDeny {
		return RiskDeny
	}
	if a == RiskAsk || b == RiskAsk {
		return RiskAsk
	}
	return ""
}

// DefaultTimeout is the time limit of a call of a tool that declares none.
const DefaultTimeout = 120 * time.Second

// A Declaration describes a tool.
type Declaration struct {
	Name        string `json:"name"` // dotted, such as thermostat.set
	Title       string `json:"title,omitempty"`
	Description string `json:"description,omitempty"`

	// Parameters and Schema describe the arguments, in one of two forms: declared here,
	// or a JSON Schema of an object from a skill or a server. Neither means no
	// arguments.
	Parameters []Parameter     `json:"parameters,omitempty"`
	Schema     json.RawMessage `json:"schema,omitempty"`

	Output     json.RawMessage `json:"output,omitempty"`     // JSON Schema of the result, nil if unknown
	Effect     commands.Effect `json:"effect"`               // tools that only Read may run side by side
	Risk       string          `json:"risk,omitempty"`       // "", RiskAsk, RiskDeny; policy may be stricter
	RiskWords  string          `json:"risk_words,omitempty"` // the risk in the words of its declarer
	Idempotent bool            `json:"idempotent,omitempty"`
	Strict     bool            `json:"strict,omitempty"`    // arguments of another type are refused, not coerced
	Forgiving  bool            `json:"forgiving,omitempty"` // calls run without optional arguments that cannot be read, see Execution.Faults
	Pinned     bool            `json:"pinned,omitempty"`    // always offered, not only when relevant
	Untrusted  bool            `json:"untrusted,omitempty"` // texts come from a skill or a server: they are bounded and marked as data
	Source     string          `json:"source,omitempty"`    // skill, group, command, mcp:{server}, fs, skill.read
	Timeout    time.Duration   `json:"timeout,omitempty"`   // of a call, 0 for DefaultTimeout
}

// A Tool is a declaration with its implementation. Use it by pointer; it must not
// change once it is published.
type Tool struct {
	Declaration
	// Run executes one call. It gets checked arguments and a context that ends with the
	// call's time. The model sees the message of a *protocol.Error, and of any other
	// error only that it is internal.
	Run func(ctx context.Context, x *Execution) (Output, error)
	// Begin begins a call that Run would wait for. Optional.
	Begin func(ctx context.Context, x *Execution) (Running, error)
	// MaxArguments bounds the arguments of a call, in bytes; 0 is 1 MiB.
	MaxArguments int
	// Asks marks a tool that may ask the caller for input during a call, see
	// [WithAsker].
	Asks bool
	// Prompt marks a tool whose Run always returns soon after the end of its context.
	// It runs without a goroutine of its own.
	Prompt bool
	// Resolve completes a call before it is judged: it fills in the skills that the
	// call reaches and their declared risk, and fixes in the arguments the choices that
	// would otherwise be made only during the run. An error is the call's result.
	// Optional.
	Resolve func(ctx context.Context, x *Execution) error

	prepared atomic.Pointer[prepared]
}

// maxArguments is the greatest length of the tool's arguments, in bytes. A nil tool has
// the default.
func (t *Tool) maxArguments() int {
	if t == nil || t.MaxArguments == 0 {
		return maxArguments
	}
	return t.MaxArguments
}

// An Environment is the context of calls of tools: their principal, and the
// conversation or task that they belong to.
type Environment struct {
	Principal   *protocol.Principal
	Space       protocol.SpaceID
	Skill       protocol.SkillID // skill on whose behalf the call is made, "" for none
	Session     string
	TraceID     string
	Task        string
	Traceparent string               // W3C trace context
	Depth       int                  // number of enclosing calls of tools
	Traced      []attribute.KeyValue // further attributes of a call's span
	// ByHand is true if a person runs the tools instead of a model: tools withheld from
	// models are included.
	ByHand bool
	// Parks is true if the caller can resume later: a call that needs an approval then
	// returns as Waiting at once.
	Parks bool
	// Patience is the time until an approval expires; 0 leaves it to the gate.
	Patience time.Duration
	// Held is the time that the caller itself waits for an approval; nil leaves it to
	// the service that parks the call.
	Held *time.Duration
	// Recorded is true if the caller of the tool stores an audit record of the call's
	// outcome before it publishes the outcome. The records of commands within the call
	// are written together with that one.
	Recorded bool
	// Approval is the id of the approval that the call uses, "" for a call that was not
	// parked.
	Approval string
}

// An Execution is one call of a tool.
type Execution struct {
	Environment
	CallID string
	Name   string

	Raw           []byte         // the arguments byte for byte as the model wrote them; they need not be JSON
	Arguments     map[string]any // their values: string, bool, int64, float64, map[string]any, []any, nil
	ArgumentsJSON json.RawMessage

	Warnings []string // the changes, in the words of docs/tools.md
	Faults   []Fault  // optional arguments that could not be read, of a Forgiving tool

	Roster  []string // skills that the call reaches, if there are several
	Reaches []string // tools whose work the call does, such as one for each of the roster; they are judged with the call
	Risk    string   // strictest risk of these and of the tool: "", RiskAsk, RiskDeny
	Risks   []string // risks of the roster's capabilities, in their own words
	Reached []byte   // hash of the roster's declarations, if it reaches several
	Effect  string   // identity of its effect on the world, equal for calls with the same effect; "" if undeclared

	again func(ctx context.Context) (*Tool, *Execution, error)
}

// Again returns the call in the form in which it would be judged now, with the current
// declaration of its tool. It fails if the declaration has changed since the model
// called the tool.
func (x *Execution) Again(ctx context.Context, t *Tool) (*Tool, *Execution, error) {
	if x.again == nil {
		return t, x, nil
	}
	return x.again(ctx)
}

// A Fault is an argument that cannot be read.
type Fault struct {
	Parameter string // "" for the arguments as a whole
	Reason    string
	Required  bool
}

// An Output is the result of a tool: a JSON value, or text, and media beside it.
type Output struct {
	Content json.RawMessage
	// Brief is Content with descriptions in the places of the media in Segments; nil if
	// Content has no media.
	Brief    json.RawMessage
	Text     string
	Segments []chat.Segment
	// Pieces are Text and Segments once more, in the order of the tool; nil if they
	// have no order of their own.
	Pieces  []Piece
	IsError bool // the tool itself reported a failure
}

// Status is the outcome of a call.
type Status string

// The statuses.
const (
	Success Status = "Success"
	Failed  Status = "Failed"
	Skipped Status = "Skipped" // not begun, or cancelled
	Waiting Status = "Waiting" // not begun: the call, or one before it, needs an approval first
)

// A Result is the outcome of a call. Every call has one.
type Result struct {
	CallID string
	Name   string
	Status Status
	Text   string // for the model
	// Arguments are the arguments of the run. Of a call that did not run they are those
	// that the model wrote, as a string if they are not JSON.
	Arguments json.RawMessage
	Output    Output // of the tool, unchanged
	Warning   string // the changes of the arguments, joined by "; "
	Elapsed   time.Duration
	Err       error // a *protocol.Error; nil with Success
	Fatal     bool  // no other call can succeed either: the turn should end
	// Question is the question of a call that is Waiting for an approval of its own;
	// nil for a call behind such a call.
	Question *Question
}

// A Question is the error of a [Gate] for a call that needs an approval, in an
// environment that Parks. The approval is not opened yet.
type Question struct {
	Approval string // id of the approval, opened or not
	Draft    any    // the unopened approval, in the gate's own type
}

// Error implements error.
func (q *Question) Error() string { return "the call needs an approval first" }

// A Source is a provider of tools.
type Source interface {
	// Tools lists exactly the tools that the environment's principal may call. An
	// unchanged tool should be the same pointer each time.
	Tools(ctx context.Context, env Environment) ([]*Tool, error)
	// Revision changes whenever the answer of Tools may have changed for any principal;
	// "" is unequal to every revision, itself included.
	Revision() string
}

// A Gate decides whether a call may run: it waits for an approval where one is needed.
// Its error becomes the call's result.
type Gate func(ctx context.Context, t *Tool, x *Execution) error
