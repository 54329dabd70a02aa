package cluster

// Preview is what does not hold yet where all bridges work. Each line is in
// docs/operations.md too.
var Preview = []string{
	"A publication of QoS 2 that a client repeats because its bridge died before acknowledging it can reach subscribers on other bridges twice.",
	"A kept session is on the bridge that its client was connected to. The client finds it there alone, and when that bridge is dead it waits for its return.",
	"What is published while a bridge is dead does not reach the kept sessions that wait on it, although it is acknowledged.",
	"A client that connects to another bridge has a second session there, and its old one lives on. Until it ends, the old one takes its share of shared subscriptions.",
	"A request that is repeated on another bridge runs again. At most once holds for each bridge, and for requests that were claimed before it started.",
	"An agent is online for the bridge that it is connected to. Others call it offline, and send it nothing.",
	"RouteAgents must be connected to the oldest bridge, which looks after all scenes.",
	"task.cancel, llm.run.continue and what else acts on work under way must go to the bridge that does the work.",
	"Workflows of a dead bridge wait for its return, and a package is imported on every bridge that is to start it.",
	"Mirrors of Caps, bindings, announcements for Home Assistant and backups are the oldest bridge's. Devices on plain topics must be connected to it.",
	"Quotas, budgets and throttles count on each bridge by itself.",
	"session.list, session.get and session.kick know the sessions of the bridge that is asked, and a backup has the sessions of the bridge that makes it.",
}
