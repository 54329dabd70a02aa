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

// Approved is the record of a server's approved declarations.
type Approved struct {
	// Owner is the owner of a device, the zero value for a configured server. The
	// approval does not hold for a device of another owner.
	Owner protocol.Party `json:"owner,omitzero"`

	Tools     map[string]string `json:"tools"`               // hash of the declaration by name
	Prompts   map[string]string `json:"prompts,omitempty"`   // likewise
	Templates map[string]string `json:"templates,omitempty"` // by URI template
	Resources bool              `json:"resources,omitempty"` // all of them, which come and go

	By string `json:"by"` // last approver, "" for the configuration
	At int64  `json:"at"` // Unix milliseconds
}

// KeptFor is the party whose budget of records the approval uses.
func (a *Approved) KeptFor() protocol.Party { return a.Owner }

// Invoke runs a command of the bridge as the environment's principal.
type Invoke func(ctx context.Context, env tools.Environment, command string, params json.RawMessage) (json.RawMessage, error)

// May returns the error of a principal that may not do an action to a server.
type May func(ctx context.Context, who *protocol.Principal, action string, on commands.Resource) error

// Options configure a [Service]. Table, Invoke and May are required.
type Options struct {
	Servers []Config
	Devices DeviceSettings
	Table   records.Table[Approved]
	Invoke  Invoke
	May     May
	Version string // of the bridge, sent to servers
	// Instance is the id by which the bridge's own MCP door is recognised, "" without a
	// door.
	Instance string
	Tracer   trace.Tracer // nil traces nothing
	Log      *slog.Logger
	Now      func() time.Time

	pause time.Duration // before the first attempt to reconnect
}

// A Service manages the connections to external servers. It is a source of tools.
type Service struct {
	opts     Options
	revision atomic.Uint64
	updated  func(uri string) // receiver of changes of resources; nil for none

	mu          sync.RWMutex
	connections map[string]*connection // by key
	crowd       map[string]int         // devices, by their owner and by their space
	running     context.Context        // of Run; nil before
	closed      bool                   // no device is attached any more
	working     sync.WaitGroup         // the connections
}

var _ tools.Finder = (*Service)(nil)

// New returns the service. The configurations must have been checked.
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
	s := &Service{opts: o, connections: make(map[string]*connection), crowd: make(map[string]int)}
	for i := range o.Servers {
		c := &o.Servers[i]
		s.connections[c.Name] = newConnection(s, c)
	}
	o.Table.OnChange(func(key string, _, _ *Approved) {
		if l := s.at(key); l != nil {
			l.reconsider()
		}
	})
	return s
}

// Run keeps all servers connected until ctx ends.
func (s *Service) Run(ctx context.Context) error {
	s.mu.Lock()
	s.running = ctx
	for _, l := range s.connections {
		s.working.Go(func() { l.run(ctx) })
	}
	s.mu.Unlock()
	<-ctx.Done()
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.working.Wait()
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
	for _, l := range s.known(env.Principal) {
		if l.may(ctx, env.Principal, toolCall.Action) {
			all = append(all, l.offered()...)
		}
		if t, ok := l.readerFor(ctx, env.Principal); ok {
			all = append(all, t)
		}
	}
	return all, ctx.Err()
}

// Find implements [tools.Finder].
func (s *Service) Find(ctx context.Context, env tools.Environment, name string) (*tools.Tool, bool) {
	rest, ours := strings.CutPrefix(name, prefix)
	server, _, _ := strings.Cut(rest, ".")
	l := s.find(env.Principal, server)
	if !ours || l == nil {
		return nil, false
	}
	for _, t := range l.offered() {
		if t.Name == name {
			return t, l.may(ctx, env.Principal, toolCall.Action)
		}
	}
	if t, ok := l.readerFor(ctx, env.Principal); ok && t.Name == name {
		return t, true
	}
	return nil, false
}

// at returns the connection of a key, nil if there is none.
func (s *Service) at(key string) *connection {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.connections[key]
}

// find returns the connection to a server by its name, nil if there is none that the
// principal's tenant may use.
func (s *Service) find(who *protocol.Principal, name string) *connection {
	l := s.at(name)
	if l == nil {
		l = s.at(deviceKey(who.Home(), name))
	}
	if l == nil || !l.serves(who) {
		return nil
	}
	return l
}

// known returns the connections to all servers that a principal's tenant may use, by
// name.
func (s *Service) known(who *protocol.Principal) []*connection {
	var all []*connection
	s.mu.RLock()
	for _, l := range s.connections {
		if l.serves(who) {
			all = append(all, l)
		}
	}
	s.mu.RUnlock()
	slices.SortFunc(all, func(x, y *connection) int { return strings.Compare(x.config.Name, y.config.Name) })
	return all
}

// serves reports whether a principal belongs to a tenant that may use the server: that
// of its owner, if it is a device.
func (l *connection) serves(who *protocol.Principal) bool {
	if l.device != nil {
		return who.Home() == l.device.Owner.Space
	}
	return l.config.serves(who)
}

// may reports whether a principal may do an action to the server.
func (l *connection) may(ctx context.Context, who *protocol.Principal, action string) bool {
	return l.serves(who) && l.service.opts.May(ctx, who, action, resource(l.config.Name)) == nil
}

// resource is the resource of a server for policies.
func resource(server string) commands.Resource { return commands.Resource{Type: "mcp", ID: server} }

// connection returns the connection to a server that the principal's tenant may use, or
// NotFound.
func (s *Service) connection(who *protocol.Principal, name string) (*connection, error) {
	if l := s.find(who, name); l != nil {
		return l, nil
	}
	return nil, protocol.Errorf(protocol.NotFound, "there is no MCP server %.64q", name).With("server", name)
}

// connected returns the connection to a server that is connected, or an error.
func (s *Service) connected(who *protocol.Principal, name string) (*connection, error) {
	l, err := s.connection(who, name)
	if err != nil {
		return nil, err
	}
	_, err = l.current()
	return l, err
}
