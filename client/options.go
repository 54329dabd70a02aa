package client

import (
	"crypto/rand"
	"crypto/tls"
	"encoding/hex"
	"log/slog"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

// userAPIKey is the MQTT user name for an API key.
const userAPIKey = "apikey"

// An Option configures [Dial].
type Option func(*options)

type options struct {
	clientID    string
	root        string
	username    string
	password    []byte
	token       TokenSource
	tls         *tls.Config
	keepAlive   time.Duration
	agent       *Agent
	concurrency int
	queue       int
	cache       bool
	intake      *intake // of a client that consumes, and does nothing else
	log         *slog.Logger
}

func (o *options) setDefaults() {
	if o.clientID == "" && o.agent != nil {
		o.clientID = string(o.agent.ID)
	}
	if o.clientID == "" {
		o.clientID = "client-" + randomHex(8)
	}
	if o.agent != nil && o.agent.Type == "" {
		o.agent.Type = EndAgent
	}
	if o.keepAlive <= 0 {
		o.keepAlive = 30 * time.Second
	}
	if o.concurrency <= 0 {
		o.concurrency = 32
	}
	if o.queue <= 0 {
		o.queue = 4 * o.concurrency
	}
	if o.log == nil {
		o.log = slog.New(slog.DiscardHandler)
	}
}

func randomHex(bytes int) string {
	b := make([]byte, bytes)
	rand.Read(b) // never fails, see crypto/rand
	return hex.EncodeToString(b)
}

// WithClientID sets the MQTT client id. The default is the agent's id, or a
// random one. Two clients with one id throw each other out.
func WithClientID(id string) Option { return func(o *options) { o.clientID = id } }

// WithAPIKey shows an API key to the bridge.
func WithAPIKey(key string) Option {
	return func(o *options) { o.username, o.password = userAPIKey, []byte(key) }
}

// WithPassword shows a user name and a password to the bridge.
func WithPassword(username, password string) Option {
	return func(o *options) { o.username, o.password = username, []byte(password) }
}

// WithTLS configures the connection of mqtts:// and wss:// addresses: roots
// to trust, and a client certificate to show.
func WithTLS(config *tls.Config) Option { return func(o *options) { o.tls = config } }

// WithAgent makes the client an agent, which it must be to serve skills. The
// agent is registered with its first skill.
func WithAgent(a Agent) Option {
	return func(o *options) {
		own := a // the option may serve several clients
		o.agent = &own
	}
}

// WithConcurrency sets how many skill invocations run at a time, 32 by
// default, and how many more may wait, four times as many by default; others
// are refused with 4008. Of eight or more one caller gets at most a quarter,
// administrators together half, and waiting ones are run in turns by caller.
func WithConcurrency(running, waiting int) Option {
	return func(o *options) { o.concurrency, o.queue = running, waiting }
}

// WithCache keeps the answers to skill.discover for up to 30 minutes, to
// agent.* and policy.* for 10 and to resource.* for one, and drops them as
// soon as the bridge announces a change or the client makes one. Between a
// change elsewhere and its announcement an old answer may be given. Nothing is
// kept for a client that may not subscribe to the bridge's events.
func WithCache() Option { return func(o *options) { o.cache = true } }

// WithRoot sets the first level of all topics. Without it the bridge is asked,
// and [protocol.DefaultRoot] taken if it does not tell.
func WithRoot(root string) Option { return func(o *options) { o.root = root } }

// WithKeepAlive sets how often a silent connection is probed, every 30 seconds
// by default.
func WithKeepAlive(d time.Duration) Option { return func(o *options) { o.keepAlive = d } }

// WithLogger has lost connections and failed handlers logged.
func WithLogger(log *slog.Logger) Option { return func(o *options) { o.log = log } }

// A CallOption configures one [Call].
type CallOption func(*callOptions)

type callOptions struct {
	timeout     time.Duration
	id          string
	traceID     string
	traceparent string
	priority    protocol.Priority
	onEvent     func(*protocol.Event)
	once        bool
	fresh       bool
	minRevision uint64
	revision    *uint64
	seal        *SealOptions
}

// WithTimeout sets how long the bridge may take, [protocol.DefaultTimeout] by
// default and [protocol.MaxTimeout] at most. An earlier deadline of the
// context goes before.
func WithTimeout(d time.Duration) CallOption { return func(o *callOptions) { o.timeout = d } }

// WithID sets the request's id. A caller that repeats the id, command and
// params gets the first call's answer.
func WithID(id string) CallOption { return func(o *callOptions) { o.id = id } }

// WithTrace sets the trace id. The default is the trace of the invocation that
// the context belongs to, or a new one.
func WithTrace(id string) CallOption { return func(o *callOptions) { o.traceID = id } }

// WithTraceparent passes on a W3C trace context, so that the bridge's spans
// continue the caller's.
func WithTraceparent(traceparent string) CallOption {
	return func(o *callOptions) { o.traceparent = traceparent }
}

// WithPriority sets the priority, [protocol.Medium] by default.
func WithPriority(p protocol.Priority) CallOption { return func(o *callOptions) { o.priority = p } }

// OnEvent asks for events, such as task.progress, and has them handled before
// Call returns, one at a time on its goroutine. A caller that handles them too
// slowly misses some.
func OnEvent(handle func(*protocol.Event)) CallOption {
	return func(o *callOptions) { o.onEvent = handle }
}

// MinRevision has the bridge that answers wait until it has seen a revision of the
// state, such as the one that [Revision] has kept of a write at another bridge of its
// cluster. The call is sent even if a kept answer is at hand. A revision that the state
// has never had is refused: 1001.
func MinRevision(revision uint64) CallOption {
	return func(o *callOptions) { o.minRevision = revision }
}

// Revision stores the revision of the state after the call in *to, which a call that
// writes nothing leaves as it is.
func Revision(to *uint64) CallOption { return func(o *callOptions) { o.revision = to } }

// WithoutRetry has the call fail at the first error of any class.
func WithoutRetry() CallOption { return func(o *callOptions) { o.once = true } }

// Fresh has the bridge asked even if a kept answer is at hand.
func Fresh() CallOption { return func(o *callOptions) { o.fresh = true } }
