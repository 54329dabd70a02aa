package protocol

// A field is a member of an envelope that the decoder knows, at the top or
// within params, metadata or error.
type field uint8

const (
	noField field = iota
	fVersion
	fID
	fResponseTo
	fTimestamp
	fType
	fCommand
	fParams
	fExtension
	fStatus
	fResult
	fError
	fEvent
	fSeq
	fData
	fMetadata

	fSender
	fTrace
	fPriority
	fTimeout
	fEvents
	fMinRevision
	fRevision
	fWarnings

	fInner

	fCode
	fMessage
	fDetails

	fieldCount
)

// fields are the spans of the known members; those that are not there are
// absent.
type fields [fieldCount]span

// A scope is an object whose members the decoder knows.
type scope uint8

const (
	noScope scope = iota
	envelopeScope
	metadataScope
	errorScope
	paramsScope
)

// path names the field in errors.
func (f field) path() string {
	return [fieldCount]string{
		fVersion: "version", fID: "id", fResponseTo: "response_to", fTimestamp: "timestamp", fType: "type",
		fCommand: "command", fParams: "params", fExtension: "extension", fStatus: "status", fResult: "result",
		fError: "error", fEvent: "event", fSeq: "seq", fData: "data", fMetadata: "metadata",
		fSender: "metadata.sender_id", fTrace: "metadata.trace_id", fPriority: "metadata.priority",
		fTimeout: "metadata.timeout", fEvents: "metadata.events", fMinRevision: "metadata.min_revision", fRevision: "metadata.revision", fWarnings: "metadata.warnings",
		fInner: "params.params", fCode: "error.code", fMessage: "error.message", fDetails: "error.details",
	}[f]
}

// scope is the scope of the field's value.
func (f field) scope() scope {
	switch f {
	case fMetadata:
		return metadataScope
	case fError:
		return errorScope
	case fParams:
		return paramsScope
	}
	return noScope
}

// field finds a member by its key.
func (s scope) field(key []byte) field {
	switch s {
	case envelopeScope:
		return envelopeField(key)
	case metadataScope:
		return metadataField(key)
	case errorScope:
		return errorField(key)
	case paramsScope:
		if string(key) == "params" {
			return fInner
		}
	}
	return noField
}

func envelopeField(key []byte) field {
	switch string(key) {
	case "version":
		return fVersion
	case "id":
		return fID
	case "response_to":
		return fResponseTo
	case "timestamp":
		return fTimestamp
	case "type":
		return fType
	case "command":
		return fCommand
	case "params":
		return fParams
	case "extension":
		return fExtension
	case "status":
		return fStatus
	case "result":
		return fResult
	case "error":
		return fError
	case "event":
		return fEvent
	case "seq":
		return fSeq
	case "data":
		return fData
	case "metadata":
		return fMetadata
	}
	return noField
}

func metadataField(key []byte) field {
	switch string(key) {
	case "sender_id":
		return fSender
	case "trace_id":
		return fTrace
	case "priority":
		return fPriority
	case "timeout":
		return fTimeout
	case "events":
		return fEvents
	case "min_revision":
		return fMinRevision
	case "revision":
		return fRevision
	case "warnings":
		return fWarnings
	}
	return noField
}

func errorField(key []byte) field {
	switch string(key) {
	case "code":
		return fCode
	case "message":
		return fMessage
	case "details":
		return fDetails
	}
	return noField
}
