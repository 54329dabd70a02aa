package app

import (
	"context"
	"encoding/json"

	"github.com/aibridge/aibridge/cap"
	"github.com/aibridge/aibridge/internal/authz"
	"github.com/aibridge/aibridge/internal/store"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/registry"
	"github.com/aibridge/aibridge/scene"
)

// newScenes makes the part that keeps scenes.
func newScenes(s *state, agents *registry.Service, all *cap.Service, shared *relaying) *scene.Service {
	options := scene.Options{
		Scenes:       store.NewTable[scene.Scene](s.Store, "scene"),
		Skills:       agents,
		Channels:     sceneChannels{all},
		Certificates: authz.Certificates{PKI: s.promised.certificates.value},
		Publish:      s.clients.Publish,
		Retained:     s.clients.Retained,
		MembershipLost: func(t protocol.SceneType, id protocol.CapID) {
			s.policies.FactsChanged() // decisions by membership are made again
			s.clients.ReviewScene(t, id)
		},
		InCharge: s.Members.Elected(),
		Strict:   s.config.Security.StrictDeclarations,
		Topics:   s.topics,
		BridgeID: s.config.ID,
		Log:      s.log,
	}
	if shared != nil {
		options.Declared = func(ctx context.Context, d scene.Declaration) { shared.declared(ctx, s, d) }
	}
	scenes := scene.New(options)
	if shared != nil {
		shared.errands.does[declareRouteAgent] = func(_ context.Context, with json.RawMessage) (any, error) {
			var d scene.Declaration
			err := json.Unmarshal(with, &d)
			if err == nil {
				scenes.Declared(d)
			}
			return nil, err
		}
	}
	s.promised.scenes.keep(scenes)
	return scenes
}

// declareRouteAgent is the errand of knowing that a RouteAgent has declared itself.
const declareRouteAgent = "scene.declared"

// declared tells the oldest bridge, which looks after the scenes, of a RouteAgent
// that has declared itself here. A bridge that becomes the oldest gives all
// RouteAgents time.
func (r *relaying) declared(ctx context.Context, s *state, d scene.Declaration) {
	n, elsewhere := s.carrier("")
	if !elsewhere {
		return
	}
	if err := r.errands.have(ctx, n, declareRouteAgent, d, new(any)); err != nil {
		s.log.Warn("the oldest bridge was not told of a RouteAgent", "bridge", n.ID, "skill", d.Skill, "error", err)
	}
}

// sceneChannels shows Caps to scenes.
type sceneChannels struct{ *cap.Service }

// Channel implements [scene.Channels].
func (c sceneChannels) Channel(space protocol.SpaceID, id protocol.CapID) (scene.Channel, bool) {
	found, ok := c.Lookup(space, id)
	if !ok {
		return scene.Channel{}, false
	}
	return scene.Channel{Active: found.Status == cap.Active, Scenes: found.Scenes, MaxMembers: found.MaxMembers}, true
}
