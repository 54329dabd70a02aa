package route

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/aibridge/aibridge/client"
	"github.com/aibridge/aibridge/protocol"
)

// Role is the role of a RouteAgent in a scene.
const Role = "agent_route"

// A stage is the scene as the agent knows it: the skill in charge and the members. Events only
// cause a new look; the state itself is read from the bridge.
type stage struct {
	mu     sync.Mutex
	acting protocol.SkillID // "" while the scene is suspended
	cast   map[protocol.SkillID]bool
	stale  chan struct{} // holds a token when there is something to look at
}

func newStage() *stage { return &stage{stale: make(chan struct{}, 1)} }

// changed has the scene looked at again.
func (s *stage) changed() {
	select {
	case s.stale <- struct{}{}:
	default:
	}
}

func (s *stage) set(acting protocol.SkillID, cast map[protocol.SkillID]bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.acting, s.cast = acting, cast
}

// players are the members other than RouteAgents. An agent that is not in charge
// gets an error.
func (s *stage) players(self protocol.SkillID) (map[protocol.SkillID]bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.acting != self {
		err := protocol.Errorf(protocol.InvalidState, "skill %q is not in charge of the scene", self).With("skill_id", string(self))
		if s.acting != "" {
			err = err.With("acting", string(s.acting))
		}
		return nil, err
	}
	return s.cast, nil
}

// A scene is one as scene.query shows it.
type scene struct {
	Owner   protocol.SkillID `json:"owner"`
	Acting  protocol.SkillID `json:"acting"`
	Status  string           `json:"status"`
	Reason  string           `json:"reason"`
	Members []struct {
		Skill  protocol.SkillID `json:"skill_id"`
		Role   string           `json:"skill_role"`
		Status string           `json:"status"`
		Reason string           `json:"reason"`
	} `json:"members"`
}

// declare declares the agent's skill: the first RouteAgent creates the scene,
// others stand by.
func (o *Options) declare(ctx context.Context) error {
	declared, err := client.Call[struct {
		Created bool `json:"created"`
	}](ctx, o.Client, "scene.declare", map[string]any{
		"scene_type": o.Scene, "skill_id": o.Skill, "skill_role": Role, "is_owner_declaration": o.Owner, "cap_id": o.Cap,
	})
	if err != nil {
		return fmt.Errorf("declare scene %s: %w", o.Scene, err)
	}
	o.Log.Info("declared", "scene", o.Scene, "cap", o.Cap, "created", declared.Created)
	return nil
}

// lookEvery is the interval at which the scene is looked at without an event: one may be
// lost with a connection.
const lookEvery = 10 * time.Second

// follow keeps the stage up to date with the scene until ctx ends, or the agent is
// no longer a member, which is an error.
func (o *Options) follow(ctx context.Context) error {
	events, err := o.Client.Subscribe(ctx, o.Client.Topics().SceneEvent(o.Scene, o.Cap), func(context.Context, client.Message) { o.stage.changed() })
	if err != nil {
		return fmt.Errorf("follow scene %s: %w", o.Scene, err)
	}
	defer func() {
		select {
		case <-o.Client.Done(): // and with it what it subscribed to
			return
		default:
		}
		leaving, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		_ = events.Close(leaving)
	}()
	for {
		if err := o.look(ctx); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-o.stage.stale:
		case <-time.After(lookEvery):
		}
	}
}

// look brings the stage up to date.
func (o *Options) look(ctx context.Context) error {
	found, err := client.Call[struct {
		Scenes []scene `json:"scenes"`
	}](ctx, o.Client, "scene.query", map[string]any{"scene_type": o.Scene, "cap_id": o.Cap}, client.Fresh())
	if err != nil {
		if ctx.Err() == nil {
			o.Log.Warn("the scene cannot be looked at", "scene", o.Scene, "error", err)
		}
		return nil // the last known state is better than none
	}
	if len(found.Scenes) == 0 {
		return protocol.Errorf(protocol.NotFound, "scene %q was cancelled", o.Scene).With("scene_type", string(o.Scene))
	}
	s := &found.Scenes[0]
	cast, taking := make(map[protocol.SkillID]bool, len(s.Members)), false
	for _, m := range s.Members {
		switch {
		case m.Skill == o.Skill:
			taking = true
			if m.Status == "suspended" {
				o.reinstate(ctx, m.Reason)
			}
		case m.Role != Role && m.Status != "suspended":
			cast[m.Skill] = true
		}
	}
	if !taking {
		return protocol.Errorf(protocol.NotFound, "skill %q was taken out of scene %q", o.Skill, o.Scene).With("scene_type", string(o.Scene))
	}
	o.announce(s, len(cast))
	o.stage.set(s.Acting, cast)
	return nil
}

// reinstate declares the skill again after it was suspended: the connection
// may show another certificate by now, or the skill be back on the Cap.
func (o *Options) reinstate(ctx context.Context, reason string) {
	if err := o.declare(ctx); err != nil && ctx.Err() == nil {
		o.Log.Warn("suspended", "scene", o.Scene, "reason", reason, "error", err)
		return
	}
	o.stage.changed()
}

// announce logs a change of the skill in charge.
func (o *Options) announce(s *scene, players int) {
	o.stage.mu.Lock()
	same := o.stage.acting == s.Acting && o.stage.cast != nil
	o.stage.mu.Unlock()
	switch {
	case same:
	case s.Acting == o.Skill:
		o.Log.Info("in charge", "scene", o.Scene, "members", players)
	case s.Acting != "":
		o.Log.Info("standing by", "scene", o.Scene, "in_charge", s.Acting)
	default:
		o.Log.Warn("the scene is suspended", "scene", o.Scene, "reason", s.Reason)
	}
}
