package app

import (
	"fmt"

	"github.com/aibridge/aibridge/cap"
	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/commands/feed"
	"github.com/aibridge/aibridge/commands/status"
	"github.com/aibridge/aibridge/commands/task"
	"github.com/aibridge/aibridge/connect/a2a"
	"github.com/aibridge/aibridge/connect/link"
	"github.com/aibridge/aibridge/doors/mqtt/delayed"
	"github.com/aibridge/aibridge/doors/mqtt/queue"
	mqttsession "github.com/aibridge/aibridge/doors/mqtt/session"
	"github.com/aibridge/aibridge/llm"
	"github.com/aibridge/aibridge/llm/approval"
	"github.com/aibridge/aibridge/llm/conversation"
	"github.com/aibridge/aibridge/llm/run"
	"github.com/aibridge/aibridge/llm/tools/servers"
	"github.com/aibridge/aibridge/registry"
	"github.com/aibridge/aibridge/registry/doctor"
	"github.com/aibridge/aibridge/registry/shadow"
	"github.com/aibridge/aibridge/scene"
	"github.com/aibridge/aibridge/security"
	"github.com/aibridge/aibridge/security/audit"
	"github.com/aibridge/aibridge/security/pki"
	"github.com/aibridge/aibridge/security/policy"
	"github.com/aibridge/aibridge/vfs"
	"github.com/aibridge/aibridge/vfs/mirror/caps"
)

// A family is a service with commands.
type family interface{ Commands() []commands.Command }

// gather lists every command of the bridge.
func gather(families ...family) []commands.Command {
	all := commands.Builtin()
	for _, f := range families {
		all = append(all, f.Commands()...)
	}
	return all
}

// Commands are the commands that this version understands, for descriptions
// and help: they cannot be run.
func Commands() *commands.Set {
	set, err := commands.NewSet(gather(
		new(feed.Feed), new(status.Service), new(registry.Service), new(shadow.Service), new(doctor.Service), new(cap.Service), new(scene.Service), new(task.Service), new(mqttsession.Service), new(delayed.Keeper), new(queue.Keeper), new(link.Service),
		new(security.KeyService), new(security.SecretService), new(security.QuotaService), new(security.TokenService), new(policy.Service), new(pki.Service),
		new(vfs.Service), new(caps.Service), new(servers.Service), new(a2a.Service), new(llm.Service), new(conversation.Service), new(approval.Service), new(run.Service), new(audit.Service),
	)...)
	if err != nil {
		panic(fmt.Sprintf("a command is declared wrongly: %v", err)) // a test walks over all of them
	}
	return set
}

// ownCommands lists the commands of the bridge for their actions.
func ownCommands() []commands.Command {
	var all []commands.Command
	for c := range Commands().All() {
		all = append(all, *c)
	}
	return all
}
