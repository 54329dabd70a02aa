package broker

import "github.com/aibridge/aibridge/protocol"

// renew gives a connected client a new principal, which is the same party with
// a newer credential. What it has subscribed to and no longer may hear, it
// hears no more.
func (t *turn) renew(c *conn, who *protocol.Principal) {
	client, s := c.client, c.session
	before := client.principal.Swap(who)
	s.mu.Lock()
	if s.conn.Load() == c {
		t.become(s, who)
		t.b.recordSession(t, s)
	}
	filters := s.filters()
	s.mu.Unlock()
	for _, f := range filters {
		if !t.stillMay(s, client, f) {
			s.events.push(func(p Presence) { p.Unsubscribed(client, f) })
		}
	}
	t.tell = append(t.tell, s)
	t.b.log.Debug("client renewed its credential", "client", client.ID, "expires", who.Expires)
	if told := t.b.options.Renewed; told != nil {
		told(client, before)
	}
}

// stillMay reports whether the client may hear what the session subscribed
// to. If not, it ends the subscription.
func (t *turn) stillMay(s *session, client *Client, filter string) bool {
	v := t.b.options.Permissions.MaySubscribe(client, t.b.Inner(filter))
	if v.Allowed() {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.revoke(s, filter) && s.client != nil {
		t.b.recordSession(t, s)
	}
	t.b.log.Info("subscription ended", "client", client.ID, "filter", filter, "reason", v.Text)
	return false
}

// filters lists the filters that the session subscribed to; its mu is held.
func (s *session) filters() []string {
	all := make([]string, 0, s.subs.len())
	for sub := range s.subs.all() {
		all = append(all, sub.filter)
	}
	return all
}
