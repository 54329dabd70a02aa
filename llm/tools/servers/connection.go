package servers

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/aibridge/aibridge/internal/fair"
	"github.com/aibridge/aibridge/llm/tools"
	"github.com/aibridge/aibridge/protocol"
)

// The times that exchanges with a server may take, and the pauses between them.
const (
	connectTimeout = 30 * time.Second
	partTimeout    = 3 * time.Second
	refreshEvery   = time.Minute            // also detects a lost server
	longestPause   = time.Minute            // between attempts to connect
	calm           = 200 * time.Millisecond // before a refresh that the server or a call has triggered
)

// A State is the state of the connection to a server.
type State string

// The states of servers.
const (
	Connecting State = "connecting"
	Connected  State = "connected"
	Down       State = "down"
)

// A connection is the bridge's connection to one server.
type connection struct {
	service *Service
	config  *Config
	key     string        // of the record of approvals
	device  *attached     // nil for a server of the configuration
	again   chan struct{} // triggers a refresh, or another attempt to connect

	mu      sync.Mutex
	session *sdk.ClientSession // nil while there is none
	state   State
	since   time.Time
	problem string // reason of state Down, for operators
	server  string // name and version given by the server
	known   []*declared
	library *library             // resources and prompts
	offer   *library             // their part that was offered last
	tools   []*tools.Tool        // approved tools
	reader  *tools.Tool          // tool that reads its resources
	calls   map[string]*underway // by progress token
	caller  protocol.Party       // first caller in this session
	shared  bool                 // there were further callers

	followed map[string]int // number of followers of its resources, by URI

	places *fair.Semaphore // for sessions of single calls
}

func newConnection(s *Service, c *Config) *connection {
	l := &connection{
		service: s, config: c, key: c.Name, again: make(chan struct{}, 1), state: Connecting, since: s.opts.Now(),
		calls: make(map[string]*underway), library: &library{}, offer: &library{}, followed: make(map[string]int),
		places: fair.New(fair.Options{Capacity: maxOwnSessions, What: "sessions with the MCP server"}),
	}
	l.reader = l.readingTool()
	return l
}

// run keeps the server connected until ctx ends.
func (l *connection) run(ctx context.Context) {
	if l.device != nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(l.device.detached, cancel)()
	}
	pause := l.service.opts.pause
	for {
		connected, err := l.visit(ctx)
		if ctx.Err() != nil {
			l.leave(nil)
			return
		}
		if connected {
			pause = l.service.opts.pause
		}
		l.leave(err)
		l.service.opts.Log.Warn("an MCP server is down", "server", l.config.Name, "error", l.told(err), "retry", pause)
		timer := time.NewTimer(pause/2 + rand.N(pause))
		select {
		case <-timer.C:
		case <-l.again:
			timer.Stop()
			breathe(ctx)
		case <-ctx.Done():
			timer.Stop()
		}
		pause = min(2*pause, longestPause)
	}
}

// visit connects to the server, and returns when the connection is lost.
func (l *connection) visit(ctx context.Context) (connected bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	session, err := l.connect(ctx)
	if err != nil {
		return false, err
	}
	defer part(session)
	ended := make(chan error, 1)
	go func() { ended <- session.Wait() }()
	tick := time.NewTicker(refreshEvery)
	defer tick.Stop()
	for {
		if err := l.refresh(ctx, session); err != nil {
			return connected, err
		}
		if !connected {
			connected = true
			l.arrive(session)
			l.resume(ctx, session)
		}
		select {
		case <-ctx.Done():
			return true, ctx.Err()
		case err := <-ended:
			return true, errors.Join(errors.New("the connection ended"), err)
		case <-l.again:
			breathe(ctx)
		case <-tick.C:
			if l.device != nil && l.alive(ctx, session) {
				continue
			}
		}
	}
}

// breathe pauses before a refresh, so that a server with permanent changes does not
// keep the bridge busy.
func breathe(ctx context.Context) {
	timer := time.NewTimer(calm)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// part closes a session. It waits at most partTimeout for the server.
func part(session *sdk.ClientSession) {
	closed := make(chan struct{})
	go func() {
		_ = session.Close() // the session may be lost already
		close(closed)
	}()
	late := time.NewTimer(partTimeout)
	defer late.Stop()
	select {
	case <-closed:
	case <-late.C:
	}
}

func (l *connection) connect(ctx context.Context) (*sdk.ClientSession, error) {
	transport, err := l.transport(ctx)
	if err != nil {
		return nil, err
	}
	connecting, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	session, err := l.client().Connect(connecting, transport, l.version())
	if err != nil {
		return nil, err
	}
	if l.service.isSelf(session.InitializeResult()) {
		part(session)
		return nil, errSelf
	}
	l.alone()
	l.listen(connecting, session)
	return session, nil
}

// client is the bridge's MCP client for the server.
func (l *connection) client() *sdk.Client {
	options := &sdk.ClientOptions{
		Capabilities:                l.capabilities(),
		ToolListChangedHandler:      func(context.Context, *sdk.ToolListChangedRequest) { l.look() },
		ResourceListChangedHandler:  func(context.Context, *sdk.ResourceListChangedRequest) { l.look() },
		PromptListChangedHandler:    func(context.Context, *sdk.PromptListChangedRequest) { l.look() },
		ProgressNotificationHandler: func(_ context.Context, r *sdk.ProgressNotificationClientRequest) { l.step(r.Params) },
		ResourceUpdatedHandler: func(_ context.Context, r *sdk.ResourceUpdatedNotificationRequest) {
			if r.Params != nil {
				l.changed(r.Params.URI)
			}
		},
		LoggingMessageHandler: func(_ context.Context, r *sdk.LoggingMessageRequest) { l.logged(r.Params) },
	}
	if l.config.Sampling.On {
		options.CreateMessageWithToolsHandler = outsideOfCalls
	}
	if l.config.Elicitation {
		options.ElicitationHandler = nobodyIsAsked
	}
	return l.withRoots(sdk.NewClient(l.implementation(), options))
}

// look triggers a refresh, or an attempt to connect if the server is down.
func (l *connection) look() {
	select {
	case l.again <- struct{}{}:
	default:
	}
}

// refresh lists the tools, resources and prompts of the server.
func (l *connection) refresh(ctx context.Context, session *sdk.ClientSession) error {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	var known []*declared
	names := make(map[string]bool)
	for t, err := range session.Tools(ctx, nil) {
		if err != nil {
			return err
		}
		d, ok := declare(t)
		if !ok || relayed(t) || names[strings.ToLower(t.Name)] || !l.config.wanted(t.Name) {
			continue
		}
		if len(known) == maxTools {
			l.service.opts.Log.Warn("an MCP server has more tools than are taken", "server", l.config.Name, "limit", maxTools)
			break
		}
		names[strings.ToLower(t.Name)] = true
		known = append(known, d)
	}
	slices.SortFunc(known, func(x, y *declared) int { return strings.Compare(x.Name, y.Name) })
	l.mu.Lock()
	old := l.library
	l.mu.Unlock()
	has := l.browse(ctx, session, old)
	l.mu.Lock()
	l.known, l.library = known, has
	l.mu.Unlock()
	return l.first(ctx, known, has)
}

// first approves all declarations of a server that is seen for the first time, unless
// the operator approves each.
func (l *connection) first(ctx context.Context, known []*declared, has *library) error {
	if l.approved() == nil && l.config.Approve != ApproveEach {
		approved := &Approved{
			Owner: l.owner(),
			Tools: make(map[string]string, len(known)), Prompts: hashes(has.prompts), Templates: hashes(has.templates), Resources: has.readable,
			At: l.service.opts.Now().UnixMilli(),
		}
		for _, d := range known {
			approved.Tools[d.Name] = d.hash
		}
		// Another bridge of the cluster may have stored an approval meanwhile.
		if _, err := l.service.opts.Table.Create(ctx, l.key, approved); err != nil && protocol.CodeOf(err) != protocol.AlreadyExists {
			return err
		}
	}
	l.reconsider()
	return nil
}

// reconsider makes the tools of the approved declarations. Unchanged tools keep their
// pointers.
func (l *connection) reconsider() {
	approved := l.approved()
	l.mu.Lock()
	defer l.mu.Unlock()
	var offered []*tools.Tool
	for _, d := range l.known {
		if approved == nil || approved.Tools[d.Name] != d.hash {
			continue
		}
		made := l.tool(d)
		for _, old := range l.tools {
			if old.Name == made.Name && old.Hash() == made.Hash() {
				made = old
			}
		}
		offered = append(offered, made)
	}
	if !slices.Equal(offered, l.tools) {
		l.tools = offered
		l.service.changed()
	}
	if open := l.library.approved(approved); open.sum != l.offer.sum || open.readable != l.offer.readable {
		l.offer = open
		l.service.changed()
	}
}

// offered are the tools that can be called now.
func (l *connection) offered() []*tools.Tool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.session == nil {
		return nil
	}
	return l.tools
}

// arrive records that the server is connected.
func (l *connection) arrive(session *sdk.ClientSession) {
	server := ""
	if hello := session.InitializeResult(); hello != nil && hello.ServerInfo != nil {
		server = hello.ServerInfo.Name + " " + hello.ServerInfo.Version
	}
	l.mu.Lock()
	l.session, l.state, l.since, l.problem, l.server = session, Connected, l.service.opts.Now(), "", short(server, 128)
	l.mu.Unlock()
	l.service.changed()
	l.service.opts.Log.Info("an MCP server is connected", "server", l.config.Name)
}

// leave records that the connection is lost.
func (l *connection) leave(why error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state == Connected || l.state == Connecting {
		l.since = l.service.opts.Now()
	}
	l.session, l.state, l.problem = nil, Down, ""
	if why != nil {
		l.problem = short(l.told(why), 512)
	}
	l.service.changed()
}

// told is the text of an error for operators, without the address of the server: only
// its configurer may see that, and URLs may contain keys.
func (l *connection) told(err error) string {
	text := err.Error()
	if l.config.URL != "" {
		text = strings.ReplaceAll(text, l.config.URL, "its URL")
	}
	if len(l.config.Command) > 0 {
		text = strings.ReplaceAll(text, l.config.Command[0], "its program")
	}
	if l.config.Dir != "" {
		text = strings.ReplaceAll(text, l.config.Dir, "its folder")
	}
	return text
}

// current returns the session, or an error if there is none.
func (l *connection) current() (*sdk.ClientSession, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.session == nil {
		return nil, protocol.Errorf(protocol.TargetUnavailable, "the MCP server %q is not connected", l.config.Name).With("server", l.config.Name)
	}
	return l.session, nil
}

// short is at most n bytes of a text.
func short(text string, n int) string {
	if len(text) <= n {
		return text
	}
	return strings.ToValidUTF8(text[:n], "") + "…"
}
