package cluster

// Preview is what does not hold yet where all bridges work. Each line is in
// docs/operations.md too.
var Preview = []string{
	"A publication of QoS 2 that a client repeats because its bridge died before acknowledging it can reach subscribers on other bridges twice.",
	"A message for a shared subscription whose only members are just moving to other bridges can be lost, although it was acknowledged; so can what such a member leaves if the bridge that it leaves is killed at that moment.",
	"A message that is published while a killed bridge takes its sessions back can be lost for some of them, although it was acknowledged; the drill has seen that once.",
	"While a bridge comes or goes, two connections with one client id and without a kept session can stand at two bridges until one of them ends.",
	"A request of a command that writes, and does not act, is carried out again when it is repeated on another bridge.",
	"llm.run.continue, and what else acts on a workflow, must go to the bridge that runs it.",
	"Workflows of a dead bridge wait for its return, and a package is imported on every bridge that is to start it.",
	"Mirrors of Caps, bindings, announcements for Home Assistant and backups are the oldest bridge's. Devices on plain topics must be connected to it.",
	"Quotas, budgets and throttles count on each bridge by itself, and so does policy.report.",
	"session.list, session.get and session.kick know the sessions of the bridge that is asked, and a backup has the sessions of the bridge that makes it.",
}
