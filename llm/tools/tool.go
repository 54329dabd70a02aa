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

// Cardinality is the shape of a parameter: how many values it has. Whether it
// must be there at all is said by Required alone.
type Cardinality string

// The cardinalities.
const (
	Single   Cardinality = "Single"
	Optional Cardinality = "Optional" // a single value, or null
	List     Cardinality = "List"     // an array of values
	Map      Cardinality = "Map"      // an object of values
)

// A Parameter is one that a tool takes.
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
	RiskAsk  = "ask"  // a person has to agree to every call
	RiskDeny = "deny" // no model may call it
)

// RiskOf is the meaning of the risk that a capability declares in its own words. A low or
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

// DefaultTimeout is the time that a call of a tool may take that says nothing.
const DefaultTimeout = 120 * time.Second

// A Declaration describes a tool.
type Declaration struct {
	Name        string `json:"name"` // dotted, such as thermostat.set
	Title       string `json:"title,omitempty"`
	Description string `json:"description,omitempty"`

	// Its parameters, one of both: declared here, or a JSON Schema of an object
	// that came with a skill or a server. Neither means nothing at all.
	Parameters []Parameter     `json:"parameters,omitempty"`
	Schema     json.RawMessage `json:"schema,omitempty"`

	Output     json.RawMessage `json:"output,omitempty"`     // JSON Schema of the result, nil if unknown
	Effect     commands.Effect `json:"effect"`               // tools that only Read may run side by side
	Risk       string          `json:"risk,omitempty"`       // "", RiskAsk, RiskDeny; policy may be stricter
	RiskWords  string          `json:"risk_words,omitempty"` // of the risk, in those of who declared it
	Idempotent bool            `json:"idempotent,omitempty"`
	Strict     bool            `json:"strict,omitempty"`    // arguments of another type are refused, not coerced
	Forgiving  bool            `json:"forgiving,omitempty"` // it runs without optional arguments that cannot be read, see Execution.Faults
	Pinned     bool            `json:"pinned,omitempty"`    // it is offered always, not only when relevant
	Untrusted  bool            `json:"untrusted,omitempty"` // its texts come from a skill or a server: they are bounded and marked as data
	Source     string          `json:"source,omitempty"`    // skill, group, command, mcp:{server}, fs, skill.read
	Timeout    time.Duration   `json:"timeout,omitempty"`   // of a call, 0 for DefaultTimeout
}

// A Tool is a declaration and what it stands for. Use it by pointer; it must
// not change once it was handed out.
type Tool struct {
	Declaration
	// Run does one call. It gets checked arguments and a context that ends
	// with the call's time. An error reaches the model by its message if it is
	// a *protocol.Error, any other only as an internal one.
	Run func(ctx context.Context, x *Execution) (Output, error)
	// MaxArguments bounds the arguments of a call, in bytes; 0 is 1 MiB.
	MaxArguments int
	// Asks says that whoever runs it may ask the caller for something meanwhile, see
	// [WithAsker].
	Asks bool
	// Prompt says that Run returns soon after its context has ended, whatever
	// happens. It is then run without a goroutine of its own.
	Prompt bool
	// Resolve, if there is one, completes a call before it is judged: it says
	// whom it reaches and what these say of the risk, and fixes in the
	// arguments what would otherwise be decided only when it is run. An error
	// is the call's result.
	Resolve func(ctx context.Context, x *Execution) error

	prepared atomic.Pointer[prepared]
}

// maxArguments is the length of arguments of the tool at most; without a tool, as if
// it said nothing.
func (t *Tool) maxArguments() int {
	if t == nil || t.MaxArguments == 0 {
		return maxArguments
	}
	return t.MaxArguments
}

// An Environment is for whom and in the course of what tools are called.
type Environment struct {
	Principal   *protocol.Principal
	Space       protocol.SpaceID
	Skill       protocol.SkillID // that asked for it, "" if none did
	Session     string
	TraceID     string
	Task        string
	Traceparent string               // W3C trace context
	Depth       int                  // how many calls of tools this one is within
	Traced      []attribute.KeyValue // of the span of a call, beside those that say which it is
	// ByHand says that a person runs the tools, and no model: tools withheld from models
	// are included.
	ByHand bool
	// Parks says that the caller can resume later: a call that needs an approval then
	// returns as Waiting at once.
	Parks bool
	// Patience is the time that an approval may be waited for; 0 leaves that to the
	// gate.
	Patience time.Duration
	// Held is the time that the caller itself waits for somebody to agree, if it has said
	// so; nil leaves that to whoever keeps the call.
	Held *time.Duration
	// Recorded says that whoever has the tool called puts on record what became of the
	// call before anybody hears of it. What commands within it record is written with
	// that.
	Recorded bool
	// Approval is the approval that a call waited for and is now made by, "" for
	// one that nobody was asked about yet.
	Approval string
}

// An Execution is one call of a tool.
type Execution struct {
	Environment
	CallID string
	Name   string

	Raw           []byte         // the arguments to the byte as the model wrote them; they need not be JSON
	Arguments     map[string]any // their values: string, bool, int64, float64, map[string]any, []any, nil
	ArgumentsJSON json.RawMessage

	Warnings []string // the changes, in the words of docs/tools.md
	Faults   []Fault  // optional arguments that could not be read, of a Forgiving tool

	Roster  []string // the skills it reaches, if it reaches several
	Reaches []string // the tools that it does the work of, such as one for each of the roster: who judges the call judges them
	Risk    string   // the strictest of what these and the tool declare: "", RiskAsk, RiskDeny
	Risks   []string // what the capabilities of the roster declare, in their own words
	Reached []byte   // hash of all that they declare, if it reaches several
	Effect  string   // what it does to the world, the same of calls that are the same deed; "" if that is not declared

	again func(ctx context.Context) (*Tool, *Execution, error)
}

// Again is the call as it would be judged now, with its tool as it is now. It
// fails if that is not declared as it was when the model called it.
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
	// Brief is Content with words in the places of the media that Segments are; nil if
	// Content has none.
	Brief    json.RawMessage
	Text     string
	Segments []chat.Segment
	// Pieces are Text and Segments once more, in the order that the tool gave
	// them in; nil if there is no more to say than that.
	Pieces  []Piece
	IsError bool // the tool itself says that it failed
}

// Status says what became of a call.
type Status string

// The statuses.
const (
	Success Status = "Success"
	Failed  Status = "Failed"
	Skipped Status = "Skipped" // it was not begun, or cancelled
	Waiting Status = "Waiting" // it was not begun: it, or a call before it, needs an approval first
)

// A Result is the outcome of a call. Every call has one.
type Result struct {
	CallID string
	Name   string
	Status Status
	Text   string // what the model reads
	// Arguments are those that the tool was run with; of a call that was not
	// run those that the model wrote, as a string if they are no JSON.
	Arguments json.RawMessage
	Output    Output // of the tool, as it gave it
	Warning   string // the changes of the arguments, joined by "; "
	Elapsed   time.Duration
	Err       error // a *protocol.Error; nil with Success
	Fatal     bool  // no other call can succeed either: the turn should end
	// Question is the question of a call that is Waiting for an approval of its own; nil
	// of one that is behind such a call.
	Question *Question
}

// A Question is the error that a [Gate] returns for a call that needs an approval, in an
// environment that Parks. The approval was not asked for yet.
type Question struct {
	Approval string // id that the approval will have, or has
	Draft    any    // of the approval, for the gate alone
}

// Error implements error.
func (q *Question) Error() string { return "somebody has to agree to the call first" }

// A Source knows tools.
type Source interface {
	// Tools lists what the environment's principal may call, and nothing
	// else. The same tool should be the same pointer each time, as long as it
	// has not changed.
	Tools(ctx context.Context, env Environment) ([]*Tool, error)
	// Revision changes whenever the answer of Tools may have changed for
	// anybody; "" is never the same as before.
	Revision() string
}

// A Gate lets a call pass or not: it waits for an approval where one is
// needed. Its error becomes the call's result.
type Gate func(ctx context.Context, t *Tool, x *Execution) error
