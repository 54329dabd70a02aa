// Package stdio is the proxy behind aibridge mcp: it carries MCP messages between a
// client on stdin and stdout and the MCP endpoint of a bridge. It translates between
// the two transports and decodes only the necessary parts of messages, so it supports
// every version of the protocol.
//
// The transports of the SDK do not serve here. They decode a message into the SDK's
// types and encode it again; those for HTTP belong to the SDK's own client, which takes
// the version and the session from its own initialization and not from one that passes
// through. One line that is not JSON ends a connection of theirs: here it is answered
// with -32700, and the next line is read. After a restart of the bridge a session is
// opened anew, and the client does not notice; the SDK's client ends with the session.
package stdio
