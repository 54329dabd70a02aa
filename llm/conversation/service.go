package conversation

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/internal/records"
	"github.com/aibridge/aibridge/llm/chat"
	"github.com/aibridge/aibridge/llm/loop"
	"github.com/aibridge/aibridge/llm/parked"
	"github.com/aibridge/aibridge/llm/tools"
	"github.com/aibridge/aibridge/protocol"
)

// A Talker runs conversations of models with tools, see [loop.Runner].
type Talker interface {
	Converse(ctx context.Context, c loop.Conversation, emit func(chat.Event) error) (*loop.Turn, error)
	loop.Resumer
}

// Options configure a [Service]. Zero fields mean the defaults.
type Options struct {
	Conversations records.Table[Conversation]
	Talker        Talker
	// Parked stores answers whose tool calls wait for an approval. With nil they wait
	// no longer than the message.
	Parked *parked.Service
	// Tools selects the tools of models and users. Direct runs the calls of users, by
	// slash commands.
	Tools  loop.Selector
	Direct loop.Executor
	// Models returns the names of the models that a space may use.
	Models func(space protocol.SpaceID) []string
	// MayActFor returns the error of a caller that may not ask on behalf of a skill.
	MayActFor func(ctx context.Context, call *commands.Call, skill string) error

	MaxTurns         int           // turns of a conversation, default 40
	MaxBytes         int           // size of these turns, default 256 KiB
	MaxConversations int           // conversations of a principal, default 100; a new one replaces the one that was quiet for longest
	TTL              time.Duration // lifetime of a quiet conversation, default 24 h

	Log *slog.Logger
	Now func() time.Time
}

// A Service stores conversations. It is safe for use by many goroutines.
type Service struct {
	opts Options

	mu   sync.Mutex
	busy map[string]bool // conversations with an answer under way
}

// New makes a service.
func New(o Options) *Service {
	o.MaxTurns = cmp.Or(o.MaxTurns, 40)
	o.MaxBytes = cmp.Or(o.MaxBytes, 256<<10)
	o.MaxConversations = cmp.Or(o.MaxConversations, 100)
	o.TTL = cmp.Or(o.TTL, 24*time.Hour)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	s := &Service{opts: o, busy: make(map[string]bool)}
	if o.Parked != nil {
		o.Parked.Handle(llmChat.Name, s.resume)
	}
	return s
}

// Commands are the commands of the package.
func (s *Service) Commands() []commands.Command {
	return []commands.Command{commands.New(llmChat, s.Chat), commands.New(conversationList, s.List), commands.New(conversationGet, s.Get)}
}

const sweepPace = 10 * time.Minute

// Run deletes quiet conversations until ctx ends.
func (s *Service) Run(ctx context.Context) error {
	tick := time.NewTicker(sweepPace)
	defer tick.Stop()
	for {
		s.sweep(ctx)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

func (s *Service) sweep(ctx context.Context) {
	for key, c := range s.opts.Conversations.All() {
		if s.quiet(c) {
			s.forget(ctx, key)
		}
	}
}

func (s *Service) quiet(c *Conversation) bool {
	return s.opts.Now().Sub(time.UnixMilli(c.Active)) > s.opts.TTL
}

func (s *Service) forget(ctx context.Context, key string) {
	if err := s.opts.Conversations.Delete(ctx, key, 0); err != nil && protocol.CodeOf(err) != protocol.NotFound && ctx.Err() == nil {
		s.opts.Log.Warn("a conversation is not forgotten", "error", err)
	}
}

// enter locks a conversation for one message. The error is 4008 if it has one under
// way.
func (s *Service) enter(key string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.busy[key] {
		return protocol.BusyFor(time.Second, "another message of the conversation is being answered")
	}
	s.busy[key] = true
	return nil
}

func (s *Service) leave(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.busy, key)
}

// find returns a copy of a conversation, or a new one.
func (s *Service) find(who *protocol.Principal, id string) (c Conversation, known bool) {
	old, _, ok := s.opts.Conversations.Get(keyOf(who, id))
	if ok && !s.quiet(old) {
		return *old, true
	}
	now := s.opts.Now().UnixMilli()
	return Conversation{ID: id, Space: who.Home(), Owner: who.ID, Kind: who.Kind, Began: now, Active: now}, false
}

// writing is the time limit for storing a conversation.
const writing = protocol.DefaultTimeout

// keep stores a conversation, even if the caller has gone.
func (s *Service) keep(ctx context.Context, who *protocol.Principal, c *Conversation, known bool) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writing)
	defer cancel()
	if !known {
		s.makeRoom(ctx, who.Party())
	}
	c.Active = s.opts.Now().UnixMilli()
	c.fit(s.opts.MaxTurns, s.opts.MaxBytes)
	_, err := s.opts.Conversations.Put(ctx, keyOf(who, c.ID), c)
	return err
}

// makeRoom deletes the conversation that was quiet for longest, if its owner has too
// many.
func (s *Service) makeRoom(ctx context.Context, owner protocol.Party) {
	type one struct {
		key    string
		active int64
	}
	var own []one
	for key, c := range s.opts.Conversations.All() {
		if strings.HasPrefix(key, owner.String()+"/") {
			own = append(own, one{key, c.Active})
		}
	}
	slices.SortFunc(own, func(a, b one) int { return cmp.Or(cmp.Compare(a.active, b.active), strings.Compare(a.key, b.key)) })
	for i := 0; i <= len(own)-s.opts.MaxConversations; i++ {
		s.forget(ctx, own[i].key)
	}
}

// environment returns the environment of a conversation's calls of tools.
func environment(call *commands.Call, c *Conversation) tools.Environment {
	return tools.Environment{Principal: call.Principal, Space: c.Space, Skill: c.Skill, Session: c.ID, TraceID: call.TraceID}
}
