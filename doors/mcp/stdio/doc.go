// Package stdio carries MCP messages between a client on the other end of
// stdin and stdout and the MCP endpoint of a bridge: what aibridge mcp does.
// It translates between the two transports and looks into messages no further
// than that takes, so it speaks whatever version the two agree on.
package stdio
