package app

import (
	"sync/atomic"

	"github.com/aibridge/aibridge/cap"
	"github.com/aibridge/aibridge/cap/dispatch"
	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/connect/homeassistant/entities"
	"github.com/aibridge/aibridge/connect/site"
	a2atopic "github.com/aibridge/aibridge/doors/a2a/topic"
	mcpmqtt "github.com/aibridge/aibridge/doors/mcp/mqtt"
	"github.com/aibridge/aibridge/llm/approval"
	"github.com/aibridge/aibridge/registry"
	"github.com/aibridge/aibridge/registry/doctor/witness"
	"github.com/aibridge/aibridge/registry/shadow"
	"github.com/aibridge/aibridge/scene"
	"github.com/aibridge/aibridge/security/pki"
)

// A promise is a value that one part asks for when the bridge serves, and that
// is made after that part.
type promise[T any] struct{ kept atomic.Pointer[T] }

func (p *promise[T]) keep(v *T) { p.kept.Store(v) }

// value is the value, nil until the promise is kept.
func (p *promise[T]) value() *T { return p.kept.Load() }

// promises are the things that domains need of each other, and of the router, that cannot
// all come first.
type promises struct {
	agents       promise[registry.Service]   // policies decide by the registered agents and skills
	channels     promise[cap.Service]        // agents, dispatches and policies ask about Caps
	groups       promise[dispatch.Engine]    // agents answer requests of dispatches
	scenes       promise[scene.Service]      // agents and Caps tell of changes
	certificates promise[pki.Service]        // opened when the tables are loaded, which agents and scenes have
	router       promise[commands.Router]    // tools run commands
	approvals    promise[approval.Service]   // policies decide by pending approvals
	witness      promise[witness.Witness]    // sees refusals from the first door on
	shadows      promise[shadow.Service]     // agents tell of changes
	a2a          promise[a2atopic.Topic]     // clients publish on its topics; nil if it is off
	mcp          promise[mcpmqtt.Topics]     // clients publish on its topics; nil if it is off
	entities     promise[entities.Publisher] // agents tell of changes; nil if no skills are shown
	site         promise[site.Site]          // agents tell of changes; nil if the bridge is none
}
