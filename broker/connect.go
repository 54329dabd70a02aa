package broker

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"time"

	"github.com/aibridge/aibridge/broker/packet"
	"github.com/aibridge/aibridge/broker/topic"
	"github.com/aibridge/aibridge/protocol"
)

// A request is a CONNECT that was found well formed.
type request struct {
	shown    Credentials
	assigned bool // the client id is of our making
	clean    bool
	expiry   uint32
	keep     time.Duration
	changed  bool // keep is not what the client asked for
	info     bool // response information is wanted
	will     *will
	asked    uint32                  // the session expiry asked for
	bridges  bool                    // the client hands messages on
	user     []protocol.UserProperty // of the CONNECT, where somebody answers them

	admission Admission // of a bridge in a cluster
	promises  bool      // a session, or a Will, that other bridges are to go on with

	method   string
	authData []byte
}

// connect handles CONNECT. A client that can be recognised is let in at once; other
// authentication may block and is done off the reader, see conn.job.
func (t *turn) connect(c *conn, body []byte) error {
	var p packet.Connect
	err := p.Decode(body)
	c.version = p.Version
	c.problem = p.Properties.Number(packet.RequestProblemInfo, 1) == 1
	c.maxPacket = packet.MaxRemaining + 5
	if most := p.Properties.Number(packet.MaximumPacketSize, 0); most != 0 { // 0 is an error, which can be told
		c.maxPacket = int(most)
	}
	var q *request
	if err == nil {
		q, err = t.b.readConnect(c, &p)
	}
	if err != nil {
		if why, ok := errors.AsType[*packet.Error](err); ok {
			c.connectRefused(string(p.ClientID), nil, why)
		}
		return err
	}
	c.phase.Store(phaseAuth)
	if recognise := t.b.options.Recognise; recognise != nil && q.method == "" {
		who := recognise(q.shown)
		switch {
		case who == nil:
		case t.b.options.Directory != nil:
			b := t.b
			c.job = func() {
				t := b.getTurn()
				defer b.putTurn(t)
				b.enterCluster(t, c, q, who, nil)
			}
			return nil
		case t.b.light(SessionID{who.Home(), q.shown.ClientID}):
			t.enter(c, q, who, nil)
			return nil
		}
	}
	c.job = func() { t.b.authenticate(c, q) }
	return nil
}

// light reports whether a session is soon resumed: permissions are asked about
// each of its subscriptions again.
func (b *Broker) light(id SessionID) bool {
	const few = 32
	s := b.session(id)
	if s == nil {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.subs.len() <= few
}

// readConnect checks what a CONNECT asks for and copies it.
func (b *Broker) readConnect(c *conn, p *packet.Connect) (*request, error) {
	l := &b.options.Limits
	q := &request{
		shown: Credentials{
			ClientID: string(p.ClientID), Username: string(p.Username), Password: bytes.Clone(p.Password),
			Peer: c.peer, Known: c.known, Remote: c.remote, Listener: c.door.name,
		},
		clean:  p.CleanStart,
		keep:   time.Duration(p.KeepAlive) * time.Second,
		info:   p.Properties.Number(packet.RequestResponseInfo, 0) == 1,
		method: string(p.Properties.Bytes(packet.AuthMethod)), authData: bytes.Clone(p.Properties.Bytes(packet.AuthData)),
	}
	if q.shown.ClientID == "" {
		if c.version != packet.V5 && !q.clean { // [MQTT-3.1.3-8] of 3.1.1
			return nil, &packet.Error{Reason: packet.ClientIdentifierNotValid, Text: "a kept session needs a client id"}
		}
		q.shown.ClientID, q.assigned = "auto-"+rand.Text(), true // [MQTT-3.1.3-6] [MQTT-3.1.3-7]
	}
	if reason := clientIDRule.Check(q.shown.ClientID); reason != "" { // [MQTT-3.1.3-8]
		return nil, &packet.Error{Reason: packet.ClientIdentifierNotValid, Text: "client id " + reason}
	}
	q.bridges = b.options.Mark != "" && slices.ContainsFunc(p.Properties.User, func(u packet.UserProperty) bool { return string(u.Key) == MarkProperty })
	if b.options.ConnackProperties != nil {
		for _, u := range p.Properties.User {
			q.user = append(q.user, protocol.UserProperty{Key: string(u.Key), Value: string(u.Value)})
		}
	}
	q.asked = p.Properties.Number(packet.SessionExpiry, 0)
	if c.version != packet.V5 && !q.clean {
		q.asked = forever
	}
	q.expiry = b.allowedExpiry(q.asked)
	if l.KeepAlive > 0 && (q.keep == 0 || q.keep > l.KeepAlive) && c.version == packet.V5 {
		q.keep, q.changed = l.KeepAlive, true
	}
	c.recvMax = min(int(p.Properties.Number(packet.ReceiveMaximum, 65535)), l.Inflight)
	c.aliasMax = min(int(p.Properties.Number(packet.TopicAliasMaximum, 0)), l.TopicAliases)
	if p.HasWill {
		var err error
		if q.will, err = b.readWill(&p.Will, q.shown.ClientID); err != nil {
			return nil, err
		}
	}
	return q, nil
}

func (b *Broker) readWill(w *packet.Will, from string) (*will, error) {
	if !topic.ValidName(w.Topic) {
		return nil, &packet.Error{Reason: packet.TopicNameInvalid, Text: "invalid will topic"}
	}
	if topic.DeeperThan(b.options.Limits.TopicLevels, w.Topic) {
		return nil, &packet.Error{Reason: packet.TopicNameInvalid, Text: tooDeep}
	}
	if rt := w.Properties.Bytes(packet.ResponseTopic); rt != nil && !topic.ValidName(rt) {
		return nil, &packet.Error{Reason: packet.ProtocolError, Text: "will response topic with wildcards"}
	}
	out := &will{
		delay: w.Properties.Number(packet.WillDelay, 0),
		life:  w.Properties.Number(packet.MessageExpiry, 0),
		msg:   &message{topic: string(w.Topic), payload: bytes.Clone(w.Payload), qos: w.QoS, retain: w.Retain, from: from},
	}
	w.Properties.Drop(packet.WillDelay)
	w.Properties.Drop(packet.MessageExpiry)
	if !w.Properties.Empty() {
		out.msg.props = w.Properties.Append(nil)
	}
	return out, nil
}

// authenticate identifies a client and lets it in or refuses it.
func (b *Broker) authenticate(c *conn, q *request) {
	t := b.getTurn()
	defer b.putTurn(t)
	if q.method != "" {
		c.ex = &authentication{method: q.method, request: q}
		b.exchange(t, c, q.authData)
		return
	}
	principal, err := b.identify(q)
	if err == nil && b.options.Directory != nil {
		b.enterCluster(t, c, q, principal, nil)
		return
	}
	t.begin()
	if err != nil {
		b.log.Info("connection refused", "client", q.shown.ClientID, "listener", c.door.name, "remote", c.remote, "error", err)
		t.refuse(c, refusal(err))
		return
	}
	t.enter(c, q, principal, nil)
}

// identify says who a client is.
func (b *Broker) identify(q *request) (*protocol.Principal, error) {
	release, ok := b.authenticates()
	if !ok {
		return nil, errShuttingDown
	}
	defer release()
	ctx, cancel := context.WithTimeout(b.ctx, b.options.Limits.ConnectTimeout)
	defer cancel()
	principal, err := b.options.Authenticate(ctx, q.shown)
	if err == nil && principal == nil {
		err = errNoPrincipal
	}
	return principal, err
}

// authenticates takes one of the places of those that authenticate at a time, and
// is not ok when the broker closes first.
func (b *Broker) authenticates() (release func(), ok bool) {
	select {
	case b.authenticating <- struct{}{}:
		return func() { <-b.authenticating }, true
	case <-b.closing:
		return nil, false
	}
}

// refusal answers a client whose authentication failed: it never says what
// was wrong with it.
func refusal(err error) *packet.Error {
	switch code := protocol.CodeOf(err); {
	case err == errShuttingDown:
		return &packet.Error{Reason: packet.ServerShuttingDown}
	case errors.Is(err, errNoPrincipal), code == protocol.NotAuthenticated, code == protocol.CredentialInvalid:
		return &packet.Error{Reason: packet.BadUserNameOrPassword}
	case code[0] == '2':
		return &packet.Error{Reason: packet.NotAuthorized}
	case code == protocol.RateLimited && protocol.AsError(err).Details["limit"] != nil: // a bound on holdings, not on attempts
		return &packet.Error{Reason: packet.QuotaExceeded}
	case code == protocol.RateLimited:
		return &packet.Error{Reason: packet.ConnectionRateExceeded}
	}
	return &packet.Error{Reason: packet.ServerUnavailable}
}

// clientIDRule lets clients keep the ids they have, topic characters included:
// [MQTT-3.1.3-5] wants the simple ones, devices in the field have others.
var clientIDRule = protocol.Rule{What: "client id", Min: 1, Max: 256, Visible: true}

var (
	errNoPrincipal  = errors.New("no principal")
	errShuttingDown = errors.New("the broker closes")
)

// refuse answers CONNECT with a refusal and closes [MQTT-3.1.4-1]
// [MQTT-3.1.4-2] [MQTT-3.2.2-7]. A 3.1.1 client is told only what its return
// codes can say.
func (t *turn) refuse(c *conn, why *packet.Error) {
	t.b.stats.refused(why.Reason)
	answer := packet.Connack{Reason: why.Reason}
	switch {
	case c.version == 0 && why.Reason != packet.UnsupportedProtocolVersion, why.Reason == packet.ReceiveMaximumExceeded:
		c.end(0, "", t.now)
		return
	case why.Reason == packet.UnsupportedProtocolVersion && c.version&^packet.BridgeBit < packet.V5,
		c.version == packet.V311:
		if why.Reason == packet.MalformedPacket || why.Reason == packet.ProtocolError || why.Reason == packet.TopicNameInvalid {
			c.end(0, "", t.now)
			return
		}
		answer.Reason = packet.ReturnCode(why.Reason)
		c.endWith(answer.Append(nil, packet.V311), t.now)
	default:
		if why.Text != "" {
			answer.Properties.SetBytes(packet.ReasonString, cutText(why.Text))
		}
		b := answer.Append(nil, packet.V5)
		if len(b) > c.maxPacket {
			answer.Properties.Reset()
			b = answer.Append(b[:0], packet.V5)
		}
		if len(b) > c.maxPacket { // [MQTT-3.1.2-24]
			b = nil
		}
		c.endWith(b, t.now)
	}
}

// enter attaches the connection to its session, new or kept, and answers
// CONNECT. Presence is told before.
func (t *turn) enter(c *conn, q *request, principal *protocol.Principal, authData []byte) {
	client := NewClient(q.shown.ClientID, principal)
	client.Remote, client.Listener, client.Version = c.remote, c.door.name, c.version
	if t.unwelcome(c, q, client, authData) {
		t.refuse(c, &packet.Error{Reason: packet.PacketTooLarge, Text: "CONNACK exceeds the maximum packet size"})
		return
	}
	for {
		s, fresh := t.b.sessionFor(client.ID, principal)
		if s == nil {
			t.refuse(c, &packet.Error{Reason: packet.ServerShuttingDown})
			return
		}
		s.claim.Lock()
		done := t.claim(c, q, s, fresh, client, authData)
		s.claim.Unlock()
		if done {
			return
		}
	}
}

// errTaken refuses a client id that somebody else uses.
var errTaken = &packet.Error{Reason: packet.NotAuthorized, Text: "client id belongs to another principal"}

// turnAway refuses a client whose credential is good.
func (t *turn) turnAway(c *conn, client *Client, why *packet.Error) {
	c.connectRefused(client.ID, client.Principal(), why)
	t.refuse(c, why)
}

// claim enters one session. It returns false when that one ended meanwhile.
func (t *turn) claim(c *conn, q *request, s *session, fresh bool, client *Client, authData []byte) (done bool) {
	s.mu.Lock()
	if s.ended {
		s.mu.Unlock()
		return false
	}
	if who := client.Principal(); !s.principal.Same(who) {
		owner := s.principal.ID
		s.mu.Unlock()
		t.b.log.Info("takeover refused", "client", s.id, "owner", owner, "principal", who.ID)
		t.turnAway(c, client, errTaken)
		return true
	}
	if q.expiry > 0 && !t.b.hold(s) {
		if fresh {
			t.endLocked(s)
		}
		s.mu.Unlock()
		t.b.log.Info("session refused: too many are kept", "client", s.id, "principal", s.owner.ID, "space", s.owner.Space)
		t.turnAway(c, client, errTooManySessions)
		return true
	}
	old := s.conn.Load()
	if err := c.settle(client.Principal(), old); err != nil {
		switch {
		case fresh:
			t.endLocked(s)
		case !s.keeps():
			t.b.unhold(s)
		}
		s.mu.Unlock()
		t.b.log.Info("connection refused: too many are open", "client", s.id, "principal", s.owner.ID, "space", s.owner.Space)
		t.turnAway(c, client, err)
		return true
	}
	if old != nil { // [MQTT-3.1.4-3]
		t.detachLocked(s, "session takeover")
	}
	if q.clean && !fresh && !s.ended { // [MQTT-3.1.2-4]
		t.endLocked(s)
	}
	ended := s.ended
	s.entering = !ended
	if !ended {
		s.will = nil // what its delay put off is not to be said any more [MQTT-3.1.3-9]
	}
	s.mu.Unlock()
	if old != nil {
		t.b.stats.disconnected(packet.SessionTakenOver)
		old.end(packet.SessionTakenOver, "", t.now)
		t.b.ended(old.client, packet.SessionTakenOver, "")
	}
	t.tellAll()
	if ended {
		return false
	}
	t.settleWills(client)
	t.attach(c, q, s, fresh, client, authData)
	return true
}

// attach makes the connection the session's. session.claim is held.
func (t *turn) attach(c *conn, q *request, s *session, fresh bool, client *Client, authData []byte) {
	s.mu.Lock()
	filters := s.filters()
	s.mu.Unlock()
	s.events.push(func(p Presence) { p.Connected(client) })
	s.events.told() // rights may ask who is connected
	for _, f := range filters {
		if t.stillMay(s, client, f) {
			s.events.push(func(p Presence) { p.Subscribed(client, f) })
		}
	}
	s.events.told()

	s.mu.Lock()
	defer s.mu.Unlock()
	s.entering = false
	c.client, c.keepAlive = client, q.keep
	present := !fresh
	c.mu.Lock()
	c.session = s
	closed := c.closed
	if !closed {
		answer := t.connack(c, q, client, present, authData)
		c.out.add(answer) // [MQTT-3.2.0-1]
		c.noteEntry(t.b.traces.running(s.key(), time.Now()), answer)
		t.touch(c)
	}
	c.mu.Unlock()
	s.client = client
	t.become(s, client.Principal())
	s.will, s.expiry, s.expires = q.will, q.expiry, 0
	if s.will != nil {
		s.will.since = q.admission.Since
	}
	s.epoch, s.since = q.admission.Epoch, q.admission.Since
	if !s.keeps() {
		t.b.unhold(s)
	}
	s.credit, s.full = c.recvMax, false
	s.receiving.Store(0)
	for id := range s.inbound {
		s.inbound[id] = false // the client's quota begins anew
	}
	s.window.rewind()
	s.conn.Store(c)
	t.b.connected.Add(1)
	t.count.connects++
	c.lastRead.Store(t.now)
	q.promises = s.will != nil || s.keeps() && !s.record.known
	t.b.recordSession(t, s)
	if s.will != nil && !s.keeps() {
		t.b.recordWill(t, s, s.will)
	}
	if closed {
		t.detachLocked(s, "connection lost")
		return
	}
	c.phase.CompareAndSwap(phaseAuth, phaseOpen)
	if s.window.unsent != 0 || s.queue.len() > 0 {
		s.behind.Store(true)
	}
	t.b.log.Debug("client connected", "client", s.id, "listener", client.Listener, "remote", c.remote, "version", client.Version, "resumed", present)
}

// unwelcome reports that the client takes no packet as large as the smallest
// CONNACK there is for it [MQTT-3.1.2-24].
func (t *turn) unwelcome(c *conn, q *request, client *Client, authData []byte) bool {
	const largest = 4 << 16 // four strings at most
	return c.maxPacket < largest && len(t.connack(c, q, client, false, authData)) > c.maxPacket
}

// connack builds the answer, which announces our limits [MQTT-3.2.2-2]
// [MQTT-3.2.2-3] [MQTT-3.2.2-21].
func (t *turn) connack(c *conn, q *request, client *Client, present bool, authData []byte) []byte {
	answer := packet.Connack{SessionPresent: present}
	if c.version != packet.V5 {
		return answer.Append(nil, c.version)
	}
	l, p := &t.b.options.Limits, &answer.Properties
	if q.expiry != q.asked {
		p.SetNumber(packet.SessionExpiry, q.expiry)
	}
	p.SetNumber(packet.ReceiveMaximum, uint32(l.ReceiveMaximum))
	p.SetNumber(packet.MaximumPacketSize, uint32(t.b.options.MaxPacket))
	p.SetNumber(packet.TopicAliasMaximum, uint32(l.TopicAliases))
	p.SetNumber(packet.RetainAvailable, 1)
	p.SetNumber(packet.WildcardAvailable, 1)
	p.SetNumber(packet.SubscriptionIDs, 1)
	p.SetNumber(packet.SharedAvailable, 1)
	if q.assigned {
		p.SetBytes(packet.AssignedClientID, []byte(q.shown.ClientID)) // [MQTT-3.2.2-16]
	}
	if q.changed {
		p.SetNumber(packet.ServerKeepAlive, uint32(q.keep/time.Second))
	}
	if info := t.b.options.ResponseInfo; q.info && info != nil { // [MQTT-3.1.2-28]
		p.SetBytes(packet.ResponseInfo, []byte(info(client)))
	}
	if q.bridges {
		p.AddUser([]byte(MarkProperty), []byte(t.b.options.Mark))
	}
	if q.method != "" {
		p.SetBytes(packet.AuthMethod, []byte(q.method))
		if authData != nil {
			p.SetBytes(packet.AuthData, authData)
		}
	}
	marks := len(p.User)
	if len(q.user) > 0 {
		for _, u := range t.b.options.ConnackProperties(client, q.user) {
			p.AddUser([]byte(u.Key), []byte(u.Value))
		}
	}
	b := answer.Append(nil, c.version)
	if len(b) > c.maxPacket && len(p.User) > marks {
		if p.User = p.User[:marks]; marks == 0 {
			p.Drop(packet.User)
		}
		b = answer.Append(b[:0], c.version)
	}
	if len(b) > c.maxPacket { // say only what differs from the default [MQTT-3.1.2-24]
		for _, id := range []packet.PropertyID{packet.RetainAvailable, packet.WildcardAvailable, packet.SubscriptionIDs, packet.SharedAvailable, packet.ResponseInfo} {
			p.Drop(id)
		}
		b = answer.Append(b[:0], c.version)
	}
	return b
}
