// Package commands declares, checks, authorizes and runs the commands of the
// protocol. A domain declares a command once, with [New]; from that
// declaration come strict decoding, validation, JSON Schema, documentation
// and the command-line help. The [Router] is the one way in for every front
// door.
//
// # Declaring parameters
//
// The parameters of a command are a struct. Its fields are described by tags:
//
//	json:"name,omitempty"  the name; a field is optional if it is a pointer, has omitempty or omitzero, or a default
//	doc:"…"                the meaning, one phrase: shape, unit, and when it is absent
//	len:"1-32"             characters of a string, items of a list, entries of a map ("1-" has no upper bound, "16" is exact)
//	each:"1-256"           characters of every string in a list or a map
//	range:"1-3600"         bounds of a number, both included
//	enum:"a,b"             the values that are allowed (of every item, for a list)
//	pattern:"^[a-z]+$"     a regular expression (RE2) strings must match
//	default:"…"            taken when the field is absent, as JSON or as a bare string
//	type:"object"          on a json.RawMessage: only a JSON object will do
//	audit:"yes"            may stand in the audit log as it is; identifiers may anyway, unless "no"
//	short:"true"           on a string field of a nested struct: the struct may be given as this plain string
//
// Identifier types carry their own limits ([protocol.Identifier]). A struct's
// method Validate() error, if there is one, is called after its fields were
// checked. Fields may be strings, booleans, numbers, time.Time, []byte (base64),
// json.RawMessage (any JSON), structs, pointers, slices and maps of these, and
// types that implement encoding.TextUnmarshaler, or json.Unmarshaler together with
// JSONSchema() json.RawMessage. Null is not a value: an optional field is left out.
//
// # Handlers that wait, and those that do not
//
// A handler of [New] may block; it runs on a goroutine and in a worker slot of
// its own. A command whose result comes from elsewhere is better declared with
// [NewAsync]: its handler sends a question and returns, and the arrival of the
// answer ends the call. Such calls run on the goroutines that read the request
// and the answer, and a hundred thousand waiting ones cost memory only. They do
// not queue for slots, so priorities decide about them only when the room for
// calls in flight runs short.
package commands
