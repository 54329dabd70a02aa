package app

import (
	"context"
	"time"

	"github.com/aibridge/aibridge/internal/store"
	"github.com/aibridge/aibridge/llm/session"
	"github.com/aibridge/aibridge/llm/tools"
	"github.com/aibridge/aibridge/protocol"
)

// Chat bounds the conversations with models that are kept.
type Chat struct {
	Hours    int `yaml:"hours" doc:"hours of quiet after which a conversation is forgotten"`
	Turns    int `yaml:"turns" doc:"turns of a conversation that a model is shown"`
	KiB      int `yaml:"kib" doc:"size of these in KiB"`
	Sessions int `yaml:"sessions" doc:"conversations of one principal; the one that was quiet for longest makes room"`
}

func defaultChat() Chat { return Chat{Hours: 24, Turns: 40, KiB: 256, Sessions: 100} }

func (c *Chat) check(fail func(format string, args ...any)) {
	within := func(name string, value, most int) {
		if value < 1 || value > most {
			fail("chat.%s: %d is not within 1 and %d", name, value, most)
		}
	}
	within("hours", c.Hours, 24*365)
	within("turns", c.Turns, 1000)
	within("kib", c.KiB, 4096)
	within("sessions", c.Sessions, 10_000)
}

// newChats makes what keeps conversations. Its table is loaded afterwards.
func (a *App) newChats() {
	c := &a.config.Chat
	a.chats = session.New(session.Options{
		Sessions:    store.NewTable[session.Session](a.store, "chat"),
		Talker:      a.loop,
		Tools:       a.tools.catalogue,
		Direct:      &tools.Executor{Gate: pass, Log: a.log, Record: a.recordToolCall},
		Models:      a.modelNames,
		MayActFor:   a.mayAskFor,
		MaxTurns:    c.Turns,
		MaxBytes:    c.KiB << 10,
		MaxSessions: c.Sessions,
		TTL:         time.Duration(c.Hours) * time.Hour,
		Log:         a.log,
	})
}

// pass lets calls through that people make themselves: they are asked about
// what models do, not about what they do with their own hands.
func pass(context.Context, *tools.Tool, *tools.Execution) error { return nil }

// modelNames are the names that a space may ask for.
func (a *App) modelNames(space protocol.SpaceID) []string {
	var names []string
	for _, m := range a.models.List(space) {
		names = append(append(names, m.ID), m.Aliases...)
	}
	return names
}
