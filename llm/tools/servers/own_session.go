package servers

import (
	"context"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/internal/fair"
	"github.com/aibridge/aibridge/protocol"
)

// A server that may send requests to a model or a person while it works on a call does
// not name that call in them. So each call of such a server has a session of its own: a
// request in it belongs to that call, and ends with it.

// maxOwnSessions is the greatest number of concurrent sessions of single calls with one
// server.
const maxOwnSessions = 32

// own opens a session for one call, until end is called.
func (l *connection) own(ctx context.Context, call *commands.Call, a *inquiry) (session *sdk.ClientSession, end func(), err error) {
	who := fair.Of(call.Principal)
	if full := l.places.TryAcquire(who, 1); full != nil {
		return nil, nil, full
	}
	lasting, cancel := context.WithCancel(ctx)
	leave := func() {
		cancel()
		l.places.Release(who, 1)
	}
	transport, err := l.transport(lasting)
	if err == nil {
		session, err = l.askingClient(call, a).Connect(lasting, transport, l.version())
	}
	if err != nil {
		leave()
		l.look()
		l.service.opts.Log.Debug("an MCP server has no session for a call", "server", l.config.Name, "error", l.told(err))
		return nil, nil, protocol.Wrap(protocol.TargetUnavailable, err, "the MCP server begins no session for the call").With("server", l.config.Name)
	}
	l.listen(lasting, session)
	return session, func() {
		part(session)
		leave()
	}, nil
}

// askingClient is the bridge's MCP client for the server during one call.
func (l *connection) askingClient(call *commands.Call, a *inquiry) *sdk.Client {
	return l.withRoots(sdk.NewClient(l.implementation(), &sdk.ClientOptions{
		Capabilities:                  a.capabilities(),
		CreateMessageWithToolsHandler: a.answerer(),
		ElicitationHandler:            a.elicitor(),
		ProgressNotificationHandler:   func(_ context.Context, r *sdk.ProgressNotificationClientRequest) { l.step(r.Params) },
		LoggingMessageHandler:         func(_ context.Context, r *sdk.LoggingMessageRequest) { call.Emit("task.log", l.line(r.Params)) },
	}))
}

// outsideOfCalls refuses questions of a server to models outside of calls.
func outsideOfCalls(context.Context, *sdk.CreateMessageWithToolsRequest) (*sdk.CreateMessageWithToolsResult, error) {
	return nil, unasked(codeRejected, "models are asked on behalf of a call of a tool, and only within its session")
}

// capabilities are the configured capabilities that the caller's client supports as
// well: the server may use them during the call.
func (a *inquiry) capabilities() *sdk.ClientCapabilities {
	c := a.of.capabilities()
	if a.answerer() == nil {
		c.Sampling = nil
	}
	if a.elicitor() == nil {
		c.Elicitation = nil
	}
	return c
}

// answerer is the handler of questions to models, nil if none are answered.
func (a *inquiry) answerer() func(context.Context, *sdk.CreateMessageWithToolsRequest) (*sdk.CreateMessageWithToolsResult, error) {
	settings := &a.of.config.Sampling
	if !settings.On || settings.By == byCaller && !a.callerAnswers(samplingMethod) {
		return nil
	}
	return a.answer
}

// capabilities are the client capabilities that are configured for the server: it may
// use no others.
func (l *connection) capabilities() *sdk.ClientCapabilities {
	c := new(sdk.ClientCapabilities)
	if l.config.Sampling.On {
		c.Sampling = new(sdk.SamplingCapabilities)
	}
	if l.config.Elicitation {
		c.Elicitation = &sdk.ElicitationCapabilities{Form: new(sdk.FormElicitationCapabilities)}
	}
	if len(l.config.Roots) > 0 {
		c.RootsV2 = new(sdk.RootCapabilities)
	}
	return c
}

// withRoots adds the configured roots of the server to a client.
func (l *connection) withRoots(c *sdk.Client) *sdk.Client {
	for _, uri := range l.config.Roots {
		c.AddRoots(&sdk.Root{URI: uri})
	}
	return c
}

// implementation is the name of the bridge.
func (l *connection) implementation() *sdk.Implementation {
	return &sdk.Implementation{Name: "aibridge", Version: l.service.opts.Version}
}
