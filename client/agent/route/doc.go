// Package route is the runtime of RouteAgents: it takes part in a scene and serves one skill by
// which callers reach all members. Asked to route, it looks up the members, has the bridge dispatch
// a command to those that take part, and returns the summary.
//
// The agent is authorised by the certificate that its client shows. Of several
// agents of one scene only the one in charge routes; the others stand by.
package route
