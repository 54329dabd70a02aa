package app

import (
	"github.com/aibridge/aibridge/cap"
	"github.com/aibridge/aibridge/internal/authz"
	"github.com/aibridge/aibridge/internal/store"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/registry"
	"github.com/aibridge/aibridge/scene"
)

// newScenes makes the part that keeps scenes.
func newScenes(s *state, agents *registry.Service, all *cap.Service) *scene.Service {
	scenes := scene.New(scene.Options{
		Scenes:       store.NewTable[scene.Scene](s.Store, "scene"),
		Skills:       agents,
		Channels:     sceneChannels{all},
		Certificates: authz.Certificates{PKI: s.promised.certificates.value},
		Publish:      s.clients.Publish,
		Retained:     s.clients.Retained,
		MembershipLost: func(t protocol.SceneType, id protocol.CapID) {
			s.policies.FactsChanged() // what was decided by membership is decided again
			s.clients.ReviewScene(t, id)
		},
		InCharge: s.Members.Elected(),
		Strict:   s.config.Security.StrictDeclarations,
		Topics:   s.topics,
		BridgeID: s.config.ID,
		Log:      s.log,
	})
	s.promised.scenes.keep(scenes)
	return scenes
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
