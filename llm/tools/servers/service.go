package servers

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/internal/records"
	"github.com/aibridge/aibridge/llm/tools"
	"github.com/aibridge/aibridge/protocol"
)

// Approved lists the approved tools of a server.
type Approved struct {
	Tools     map[string]string `json:"tools"`               // hash of the declaration by name
	Prompts   map[string]string `json:"prompts,omitempty"`   // likewise
	Templates map[string]string `json:"templates,omitempty"` // by URI template
	Resources bool              `json:"resources,omitempty"` // all of them, which come and go

	By string `json:"by"` // who did it last, "" for the configuration
	At int64  `json:"at"` // Unix milliseconds
}

// Invoke runs a command of the bridge as the environment's principal.
type Invoke func(ctx context.Context, env tools.Environment, command string, params json.RawMessage) (json.RawMessage, error)

// May says why a principal may not do an action to a server.
type May func(ctx context.Context, who *protocol.Principal, action string, on commands.Resource) error

// Options configure a [Service]. Table, Invoke and May are needed.
type Options struct {
	Servers []Config
	Table   records.Table[Approved]
	Invoke  Invoke
	May     May
	Version string // of the bridge, which servers are told
	// Instance is how the bridge's own MCP door tells that it is this one, ""
	// without a door.
	Instance string
	Tracer   trace.Tracer // nil traces nothing
	Log      *slog.Logger
	Now      func() time.Time

	pause time.Duration // before the first attempt to reconnect
}

// A Service knows external servers. It is a source of tools.
type Service struct {
	opts        Options
	connections map[string]*connection
	names       []string // of servers, in order
	revision    atomic.Uint64
	updated     func(uri string) // of a resource; nil: nobody asks
}

var _ tools.Finder = (*Service)(nil)

// New makes the service. The configurations were checked.
func New(o Options) *Service {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.pause == 0 {
		o.pause = time.Second
	}
	s := &Service{opts: o, connections: make(map[string]*connection)}
	for i := range o.Servers {
		c := &o.Servers[i]
		s.connections[c.Name] = newConnection(s, c)
		s.names = append(s.names, c.Name)
	}
	slices.Sort(s.names)
	o.Table.OnChange(func(name string, _, _ *Approved) {
		if l, ok := s.connections[name]; ok {
			l.reconsider()
		}
	})
	return s
}

// Run keeps in touch with all servers until ctx ends.
func (s *Service) Run(ctx context.Context) error {
	var running sync.WaitGroup
	for _, l := range s.connections {
		running.Go(func() { l.run(ctx) })
	}
	running.Wait()
	return nil
}

// Commands are the commands of the package.
func (s *Service) Commands() []commands.Command {
	return []commands.Command{
		commands.New(serverList, s.List),
		commands.New(serverApprove, s.Approve),
		commands.New(toolCall, s.Call),
		commands.New(resourceList, s.Resources),
		commands.New(resourceRead, s.Read),
		commands.New(promptList, s.Prompts),
		commands.New(promptGet, s.Prompt),
		commands.New(argumentComplete, s.Complete),
	}
}

// Revision implements [tools.Source].
func (s *Service) Revision() string { return strconv.FormatUint(s.revision.Load(), 10) }

func (s *Service) changed() { s.revision.Add(1) }

// Tools implements [tools.Source].
func (s *Service) Tools(ctx context.Context, env tools.Environment) ([]*tools.Tool, error) {
	var all []*tools.Tool
	for _, name := range s.names {
		if s.may(ctx, env, name) {
			all = append(all, s.connections[name].offered()...)
		}
		if t, ok := s.readerOf(ctx, env, name); ok {
			all = append(all, t)
		}
	}
	return all, ctx.Err()
}

// Find implements [tools.Finder].
func (s *Service) Find(ctx context.Context, env tools.Environment, name string) (*tools.Tool, bool) {
	rest, ours := strings.CutPrefix(name, prefix)
	server, _, _ := strings.Cut(rest, ".")
	l, known := s.connections[server]
	if !ours || !known {
		return nil, false
	}
	for _, t := range l.offered() {
		if t.Name == name {
			return t, s.may(ctx, env, server)
		}
	}
	if t, ok := s.readerOf(ctx, env, server); ok && t.Name == name {
		return t, true
	}
	return nil, false
}

func (s *Service) may(ctx context.Context, env tools.Environment, server string) bool {
	return s.allows(ctx, env.Principal, toolCall.Action, server)
}

// allows reports whether a principal may do an action to a server.
func (s *Service) allows(ctx context.Context, who *protocol.Principal, action, server string) bool {
	return s.connections[server].config.serves(who) && s.opts.May(ctx, who, action, resource(server)) == nil
}

// resource is a server as policy sees it.
func resource(server string) commands.Resource { return commands.Resource{Type: "mcp", ID: server} }

// connection is the connection to a server that the principal may know of.
func (s *Service) connection(who *protocol.Principal, name string) (*connection, error) {
	if l, ok := s.connections[name]; ok && l.config.serves(who) {
		return l, nil
	}
	return nil, protocol.Errorf(protocol.NotFound, "there is no MCP server %.64q", name).With("server", name)
}

// connected is the connection to a server that is connected at this moment.
func (s *Service) connected(who *protocol.Principal, name string) (*connection, error) {
	l, err := s.connection(who, name)
	if err != nil {
		return nil, err
	}
	_, err = l.current()
	return l, err
}
