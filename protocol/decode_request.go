package protocol

import "time"

// request reads the fields as a request, strictly.
func (e *envelope) request(r *Request) {
	*r = Request{Metadata: Metadata{Timeout: DefaultTimeout}}
	var old bool
	r.Version, old = e.version()

	id := e.requestID()
	e.envelopeType(typeRequest, old || e.matched)
	r.Timestamp = e.timestamp(old || e.matched)
	command := e.name(fCommand)
	sender, trace := e.requestMetadata(&r.Metadata)
	r.Params, r.Extension = e.bodies()

	t := texts([...][]byte{id, command, sender, trace})
	r.ID, r.Command, r.Metadata.SenderID, r.Metadata.TraceID = t[0], t[1], t[2], t[3]
	if e.err == nil { // a field not understood is not an old form either
		r.Deprecations = e.old
	}
}

// requestID reads the id. A request that needs none to be answered may leave
// it out.
func (e *envelope) requestID() []byte {
	if e.fields[fID].kind == kindAbsent && e.matched {
		e.deprecate("a request without id gets a new one, and is run again when it is repeated")
		return []byte(NewID())
	}
	return e.id(fID)
}

// envelopeType checks the type, which may be left out in some.
func (e *envelope) envelopeType(want string, optional bool) {
	if e.fields[fType].kind == kindAbsent && optional {
		e.deprecate("an envelope without type is deprecated")
		return
	}
	if e.is(fType, kindString) && string(e.string(fType)) != want {
		e.fail(fType, "must be "+want+", is "+e.quoted(fType))
	}
}

// timestamp reads the timestamp, which may be left out in some.
func (e *envelope) timestamp(optional bool) int64 {
	if e.fields[fTimestamp].kind == kindAbsent && optional {
		e.deprecate("an envelope without timestamp is deprecated, send 0 without a clock")
		return 0
	}
	at, _ := e.integer(fTimestamp, 0, maxTimestamp)
	return at
}

// requestMetadata checks the metadata; its texts are still to be copied.
func (e *envelope) requestMetadata(m *Metadata) (sender, trace []byte) {
	switch {
	case e.err != nil: // the fields are read all the same
	case !e.has(fMetadata):
		e.deprecate("a request without metadata is deprecated")
		return nil, nil
	case !e.is(fMetadata, kindObject):
		return nil, nil
	}
	if e.has(fSender) {
		sender = e.line(fSender, 1, MaxSenderLength)
	}
	if e.has(fTrace) {
		trace = e.line(fTrace, 0, MaxTraceLength)
	}
	if e.has(fPriority) && e.is(fPriority, kindString) {
		var ok bool
		if m.Priority, ok = ParsePriority(string(e.string(fPriority))); !ok {
			e.fail(fPriority, "must be low, medium or high, is "+e.quoted(fPriority))
		}
	}
	if e.has(fTimeout) {
		if ms, ok := e.integer(fTimeout, 1, MaxTimeout.Milliseconds()); ok {
			m.Timeout = time.Duration(ms) * time.Millisecond
		}
	}
	if e.has(fEvents) && e.is(fEvents, kindBoolean) {
		m.Events = e.data[e.fields[fEvents].start] == 't'
	}
	if e.has(fMinRevision) {
		revision, _ := e.integer(fMinRevision, 0, 1<<53-1)
		m.MinRevision = uint64(revision)
	}
	return sender, trace
}

// bodies copies params and extension out of the data, together.
func (e *envelope) bodies() (params, extension []byte) {
	if !e.has(fParams) {
		e.deprecate("a request without params is deprecated, send {}")
	} else if e.is(fParams, kindObject) {
		params = e.raw(fParams)
	}
	if e.has(fExtension) && e.is(fExtension, kindObject) {
		extension = e.raw(fExtension)
	}
	if params == nil {
		params = []byte("{}")
	}
	n := len(params)
	both := append(make([]byte, 0, n+len(extension)), params...)
	both = append(both, extension...)
	if extension != nil {
		extension = both[n:]
	}
	return both[:n:n], extension
}
