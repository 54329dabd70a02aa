// Package servers makes tools of external MCP servers: those that the
// operator has named in the configuration, reached over streamable HTTP or
// started as a program.
//
// A server is a stranger that the operator has let in. What it says of its tools is data;
// a tool is offered as it was when it was approved, and one that is new or has changed
// waits until an operator approves it. Calls go by the command mcp.tool.call, as the
// caller, so policy and audit apply.
package servers
