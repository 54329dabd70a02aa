package app

import (
	"context"

	"github.com/aibridge/aibridge/cap"
	"github.com/aibridge/aibridge/commands"
	mqttdoor "github.com/aibridge/aibridge/doors/mqtt"
	"github.com/aibridge/aibridge/internal/store"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/registry"
	"github.com/aibridge/aibridge/scene"
	"github.com/aibridge/aibridge/security/pki"
)

// Security says how strict the bridge is, and who may do what.
type Security struct {
	Policies           string `yaml:"policies" doc:"file or folder with policies in Cedar (*.cedar), followed while the bridge runs"`
	StrictDeclarations bool   `yaml:"strict_declarations" doc:"ask every skill that declares itself in a scene for a certificate, not only RouteAgents"`
}

// newScenes makes the part that keeps scenes.
func (a *App) newScenes(agents *registry.Service, channels *cap.Service, mqtt *mqttdoor.Clients) *scene.Service {
	return scene.New(scene.Options{
		Scenes:       store.NewTable[scene.Scene](a.store, "scene"),
		Skills:       agents,
		Channels:     sceneChannels{channels},
		Certificates: sceneCertificates{a},
		Publish:      mqtt.Publish,
		Retained:     mqtt.Retained,
		MembershipLost: func(t protocol.SceneType, id protocol.CapID) {
			a.policy.engine.FactsChanged() // what was decided by membership is decided again
			mqtt.ReviewScene(t, id)
		},
		Strict:   a.config.Security.StrictDeclarations,
		Topics:   mqtt.Topics(),
		BridgeID: a.config.ID,
		Log:      a.log,
	})
}

// runScenes follows agents, Caps and certificates, which are all there.
func (a *App) runScenes() {
	a.pki.OnEnd(func(e pki.Ended) { a.scenes.SkillChanged(e.Space, e.Skill) })
	a.run("scenes", a.scenes.Run)
}

// agentChanged has those know that follow agents.
func (a *App) agentChanged(space protocol.SpaceID, agent protocol.AgentID) {
	a.scenes.AgentChanged(space, agent)
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

// sceneCertificates has the bridge's authorities judge what scenes and route
// agents need. They are opened when the tables are loaded, before anybody asks.
type sceneCertificates struct{ app *App }

var (
	_ scene.Certificates       = sceneCertificates{}
	_ registry.RouteAuthorizer = sceneCertificates{}
)

// Authorize implements [scene.Certificates].
func (c sceneCertificates) Authorize(ctx context.Context, call *commands.Call, need scene.Need) (scene.Grant, error) {
	granted, err := c.app.pki.Authorize(ctx, call, pki.Need(need))
	if err != nil {
		return scene.Grant{}, err
	}
	return scene.Grant{Serial: granted.Serial}, nil
}

// Current implements [scene.Certificates].
func (c sceneCertificates) Current(serial protocol.Serial) (protocol.Serial, error) {
	err := c.app.pki.Valid(serial)
	if protocol.CodeOf(err) == protocol.CertificateExpired {
		if next := c.app.pki.Successor(serial); next != "" {
			return next, nil
		}
	}
	return serial, err
}

// AuthorizeRoute implements [registry.RouteAuthorizer].
func (c sceneCertificates) AuthorizeRoute(ctx context.Context, call *commands.Call, space protocol.SpaceID, serial protocol.Serial) (registry.RouteGrant, error) {
	granted, err := c.app.pki.Authorize(ctx, call, pki.Need{Serial: serial, Role: scene.RouteRole, Space: space})
	if err != nil {
		return registry.RouteGrant{}, err
	}
	return registry.RouteGrant{Serial: granted.Serial, Skill: granted.Skill}, nil
}
