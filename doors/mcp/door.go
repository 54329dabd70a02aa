package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/aibridge/aibridge/llm/chat"
	"github.com/aibridge/aibridge/llm/tools"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/protocol/grant"
)

// Name marks calls by this door.
const Name = "mcp"

// A Resource is a readable resource, with its URI.
type Resource struct {
	URI         string
	Name        string
	Title       string
	Description string
	MIMEType    string
	Size        int64  // in bytes, 0 if not known
	Source      string // where it is from, "" for the bridge
}

// A Template is a URI template (RFC 6570) of resources that can be read.
type Template struct {
	URI         string
	Name        string
	Description string
	MIMEType    string
	Source      string // where it is from, "" for the bridge
}

// Content is the content of a resource.
type Content struct {
	MIMEType string
	Data     []byte
	Text     bool // Data is UTF-8 for people and models
}

// Resources lists the resources that the environment's principal may read.
type Resources interface {
	// List returns at most limit resources after those of an earlier page, and the
	// cursor of the next one, "" at the end.
	List(ctx context.Context, env tools.Environment, cursor string, limit int) (page []Resource, next string, err error)
	Templates() []Template
	// Read fails with 3001 or 4003 for a resource that does not exist or that the
	// principal may not read.
	Read(ctx context.Context, env tools.Environment, uri string) (Content, error)
	// Stamp changes with the content. It fails as Read does.
	Stamp(ctx context.Context, env tools.Environment, uri string) (string, error)
}

// A Prompt is a text that a person may put before a model.
type Prompt struct {
	Name        string
	Title       string
	Description string
	Arguments   []Argument
	Source      string // where it is from, "" for the bridge
}

// An Argument is a text that a prompt takes.
type Argument struct {
	Name        string
	Description string
	Required    bool
}

// Prompts holds the prompts that the environment's principal may use.
type Prompts interface {
	List(ctx context.Context, env tools.Environment) ([]Prompt, error)
	// Text returns a prompt with its arguments filled in. It fails with 3001 for an
	// unknown prompt, and with 1001 for missing or invalid arguments.
	Text(ctx context.Context, env tools.Environment, name string, arguments map[string]string) (Prompt, string, error)
	// Complete returns at most limit values of an argument that begin with the typed
	// text, in order, and reports whether there are more.
	Complete(ctx context.Context, env tools.Environment, name, argument, typed string, limit int) (values []string, more bool, err error)
}

// A Keeper parks calls that need an approval, and returns their results, or that they
// wait. *loop.Calls is one.
type Keeper interface {
	Keep(ctx context.Context, env tools.Environment, c *chat.ToolCall, q *tools.Question) tools.Result
	// Park keeps a call and returns the id of its task at once.
	Park(ctx context.Context, env tools.Environment, c *chat.ToolCall, q *tools.Question) (protocol.TaskID, error)
}

// Options configure a [Door]. Catalogue, Executor and Authenticate are needed.
type Options struct {
	Catalogue   *tools.Catalogue // of the tools that callers see
	Executor    *tools.Executor  // runs them
	Keeper      Keeper           // of calls that need an approval; with nil they wait as long as the client
	Tasks       Tasks            // of calls that take long; nil: clients wait
	Resources   Resources        //  nil: none
	Completions Completions      // of arguments of templates of resources; nil for none
	Prompts     Prompts          // nil: none
	Foreign     Foreign          // further ones of both kinds; nil: none

	// Authenticate returns the principal of an HTTP request. The caller gets its error,
	// one of the protocol.
	Authenticate func(*http.Request) (*protocol.Principal, error)
	// Grants reports the end of credentials, which ends their requests and streams.
	// With nil they do not end.
	Grants grant.Authority
	// Metadata returns the URL of the OAuth metadata (RFC 9728) for callers without a
	// valid credential, "" for none.
	Metadata func(*http.Request) string

	URL          string // public URL of the MCP endpoint; that of the request when empty
	Name         string // of the server, default "aibridge"
	Instance     string // id by which the bridge recognises itself as a server; "" if not needed
	Version      string // of the server
	Instructions string // for the model, about the whole server

	MaxBytes    int           // of one request, default 1 MiB
	PageSize    int           // of lists, default 500
	MaxSessions int           // concurrent sessions, default 1024, shared fairly (package fair)
	MaxRequests int           // concurrent requests and streams, default 4096, shared likewise
	Idle        time.Duration // after which a session without requests ends, default an hour
	Patience    time.Duration // time after which a call continues as a task, if its client supports tasks; default 3 s
	Hold        time.Duration // the same for clients without support of tasks and without progress; default 45 s, negative never

	// Leaving ends when the server stops, before it waits for requests: streams
	// that only listen end then. Nil: they end with the door.
	Leaving context.Context

	Log *slog.Logger
}

func (o Options) withDefaults() Options {
	o.Name = cmp.Or(o.Name, "aibridge")
	o.Version = cmp.Or(o.Version, "dev")
	o.MaxBytes = cmp.Or(o.MaxBytes, 1<<20)
	o.PageSize = cmp.Or(o.PageSize, 500)
	o.MaxSessions = cmp.Or(o.MaxSessions, 1024)
	o.MaxRequests = cmp.Or(o.MaxRequests, 4096)
	o.Idle = cmp.Or(o.Idle, time.Hour)
	o.Patience = cmp.Or(o.Patience, 3*time.Second)
	o.Hold = cmp.Or(o.Hold, 45*time.Second) // clients give up after a minute
	if o.Foreign == nil {
		o.Foreign = nothing{}
	}
	if o.Grants == nil {
		o.Grants = grant.Unlimited{}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Metadata == nil {
		o.Metadata = func(*http.Request) string { return "" }
	}
	return o
}

// A Door serves MCP. Its methods may be called from several goroutines.
type Door struct {
	opts     Options
	closing  context.Context // ends with Run
	close    context.CancelFunc
	guests   *guests
	requests *requests
	calls    *calls // that the SDK does not run
	crew     *crew  // runs calls of tools
	sessions *sessions
	rounds   *rounds // calls that wait for their clients between two requests
	touched  touched

	implementation *sdk.Implementation // name and version of the server
	console        string              // URL of the console, "" if that depends on the request
	identity       []byte              // the _meta of a result, saying that

	stateful  http.Handler // versions with sessions
	stateless http.Handler // those without
}

// New makes a door.
func New(o Options) *Door {
	d := &Door{opts: o.withDefaults()}
	d.closing, d.close = context.WithCancel(context.Background())
	d.guests, d.crew = newGuests(d), newCrew(d.closing.Done())
	d.requests = newRequests(d.opts.MaxRequests, d.opts.Grants)
	d.calls, d.sessions, d.rounds = newCalls(), newSessions(d.opts.MaxSessions), newRounds()
	d.implementation = &sdk.Implementation{Name: d.opts.Name, Title: "AI Bridge", Version: d.opts.Version}
	d.identity, _ = json.Marshal(sdk.Meta{sdk.MetaKeyServerInfo: d.implementation}) // three texts
	d.console = consoleAt(d.opts.URL)
	d.stateful, d.stateless = d.handlers()
	return d
}

// Run notifies listening clients of changes of their lists, until ctx ends, and then
// ends all sessions and streams.
func (d *Door) Run(ctx context.Context) error {
	d.guests.watch(ctx)
	d.close()
	d.rounds.close()
	d.requests.close()
	d.guests.close()
	return nil
}

// capabilityKey is the experimental capability by which a bridge recognises itself
// among the servers that it uses.
const capabilityKey = "aibridge"

// newServer makes the SDK's server for one principal. All it offers comes from
// [features].
func (d *Door) newServer() *sdk.Server {
	capabilities := &sdk.ServerCapabilities{
		Logging: &sdk.LoggingCapabilities{},
		Tools:   &sdk.ToolCapabilities{ListChanged: true},
	}
	if d.opts.Resources != nil {
		capabilities.Resources = &sdk.ResourceCapabilities{ListChanged: true, Subscribe: true}
	}
	if d.opts.Prompts != nil {
		capabilities.Prompts = &sdk.PromptCapabilities{ListChanged: true}
	}
	if d.opts.Completions != nil {
		capabilities.Completions = &sdk.CompletionCapabilities{}
	}
	if d.opts.Instance != "" {
		capabilities.Experimental = map[string]any{capabilityKey: map[string]any{"instance": d.opts.Instance}}
	}
	if d.opts.Tasks != nil {
		capabilities.AddExtension(tasksExtension, nil)
	}
	server := sdk.NewServer(d.implementation, &sdk.ServerOptions{
		Instructions: d.opts.Instructions,
		Capabilities: capabilities,
		SetCacheable: func(_ context.Context, _ sdk.Request, c *sdk.Cacheable) { c.CacheScope = "private" },
		// The right to follow a resource is checked before the SDK gets the request.
		SubscribeHandler:   func(context.Context, *sdk.SubscribeRequest) error { return nil },
		UnsubscribeHandler: func(context.Context, *sdk.UnsubscribeRequest) error { return nil },
		Logger:             slog.New(slog.DiscardHandler), // the SDK logs every step of a session
	})
	server.AddReceivingMiddleware(d.features)
	return server
}

// rawSchema is a JSON Schema as it goes to clients.
type rawSchema = json.RawMessage
